"""The header of a trace, `trace.toml`: what an observer may know before the first message.

The trace id is the SHA-256 of that file. Every part holds it, so that a part of another
trace, or a header changed afterwards, is noticed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import tomli_w

from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.secure_aggregation.fixed_point import FixedPoint
from foltr_audit.utils.reading import file_bytes, is_whole, toml_table, whole_number
from foltr_audit.utils.reading.bounded_files import decoded

SCHEMA = "foltr-audit/trace/1"
HEADER = "trace.toml"
KINDS = ("model", "update", "masked", "es", "clicks")
NO_MODELS = ("es", "clicks")
"""Kinds whose messages are no models, so that fact `width` says how many numbers one holds."""

DTYPES = ("float32", "float64")
ENCODED = "uint64"
"""Number format of masked messages."""

MOST_PARTS = 256  # a part's index is stored in 8 bits
MOST_WHOLE = 2**31 - 1  # of parameters, of documents in a list, and of rounds
MOST_HEADER_BYTES = 1 << 20
"""A longer header is not read."""

Fact = str | int | float | bool | list[str]


@dataclass(frozen=True, kw_only=True)
class TraceDataset:
    """The data that the clients searched.

    Attributes:
        source: where it came from, e.g. a path or `synthetic:mq2007`.
        fold: number of the fold, from 1; 0 where the source has none.
        fingerprint: SHA-256 (hex) of the parsed content.
        normalised: `none`, `zscore`, `zscore-parts` or `query-minmax`.
        parts: names of the parts; an interaction's `part` is an index into them.
    """

    source: str
    fold: int
    fingerprint: str
    normalised: str
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        _check_types(self, "dataset.")
        _check(self.fold >= 0, "dataset.fold", self.fold, "0 or more")
        _check(len(set(self.parts)) == len(self.parts), "dataset.parts", self.parts, "different names")
        _check(0 < len(self.parts) <= MOST_PARTS, "dataset.parts", self.parts, f"1 to {MOST_PARTS} names")


@dataclass(frozen=True, kw_only=True)
class TraceHeader:
    """The content of `trace.toml`.

    Attributes:
        kind: what a message is: `model` (local parameters), `update` (their change), `masked` (one of
            these, encoded as integers modulo 2^bits; facts `of`, `bits`, `fraction` and `range` say how),
            `es` (mean online metrics at models perturbed from a seed), or `clicks` (the clicks themselves,
            one after the other, which a central learner gets).
        dtype: `float32` or `float64`, the payload's number format; `uint64` of masked messages.
        parameters: number P of parameters of the global model, the length of a message that is a model.
        k: length of the longest shown list.
        ranker: name of the ranker, e.g. `linear`.
        dataset: the data behind the interactions.
        knowledge: flat facts an observer may know, e.g. `{"learning_rate": 0.1}`; no NaN.
        spec_hash: hash of the Spec that made the trace; `""` for another system's.
        has_truth: whether the truth was recorded as well.
        embeds_features: whether the shown documents' features are stored.
        rounds_per_part: rounds in a part; a killed writer loses at most the open part.
        schema: name and version of the format.

    Raises:
        TraceError: a field of the wrong type or out of range, an unknown kind or schema.
    """

    kind: str
    dtype: str
    parameters: int
    k: int
    dataset: TraceDataset
    has_truth: bool
    ranker: str = "linear"
    knowledge: dict[str, Fact] = field(default_factory=dict)
    spec_hash: str = ""
    embeds_features: bool = False
    rounds_per_part: int = 10
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        _check_schema(self.schema)
        _check_types(self, "")
        _check(self.kind in KINDS, "kind", self.kind, " or ".join(KINDS))
        formats = (ENCODED,) if self.kind == "masked" else DTYPES
        _check(self.dtype in formats, "dtype", self.dtype, f"{' or '.join(formats)} of kind {self.kind}")
        for name in ("parameters", "k", "rounds_per_part"):
            value = getattr(self, name)
            _check(1 <= value <= MOST_WHOLE, name, value, f"1 to {MOST_WHOLE}")
        for name, value in self.knowledge.items():
            _check(isinstance(name, str), "knowledge", name, "names that are text")
            _check_fact(name, value)
        ordered = sorted(self.knowledge.items())
        own = {name: list(fact) if isinstance(fact, list) else fact for name, fact in ordered}
        object.__setattr__(self, "knowledge", own)
        # These refuse facts that are missing or make no sense:
        _ = self.content, self.encoding, self.width, self.intents
        try:
            self.to_toml().encode("utf-8")
        except UnicodeEncodeError as error:
            raise TraceError(f"trace: header: text {error.object[:60]!r} is not valid Unicode") from None

    @property
    def content(self) -> str:
        """The kind of a decoded message: `kind`, or that of what was masked."""
        if self.kind != "masked":
            return self.kind
        content = self.knowledge.get("of")
        _check(content in ("model", "update"), "knowledge.of", content, "model or update")
        return str(content)

    @property
    def holds_models(self) -> bool:
        """Whether a message is a model or the change of one, be it masked."""
        return self.kind not in NO_MODELS

    @property
    def width(self) -> int:
        """Numbers in a message: the P parameters, or what the fact `width` says."""
        if self.holds_models:
            return self.parameters
        return self._whole("width", "a whole number from 1 on", 1)

    @property
    def intents(self) -> int:
        """Number of intents that users have: what the fact `intents` says, else 1."""
        if "intents" not in self.knowledge:
            return 1
        return self._whole("intents", f"a whole number from 1 to {MOST_PARTS}", 1, MOST_PARTS)

    def _whole(self, fact: str, expected: str, least: float = -math.inf, most: float = math.inf) -> int:
        value = self.knowledge.get(fact)
        _check(is_whole(value, least, most), f"knowledge.{fact}", value, expected)
        return int(value)  # type: ignore[arg-type]

    @property
    def encoding(self) -> FixedPoint | None:
        """How messages are encoded as integers; None where they are not."""
        if self.kind != "masked":
            return None
        bits, fraction = (self._whole(name, "a whole number") for name in ("bits", "fraction"))
        range_ = self.knowledge.get("range")
        _check(isinstance(range_, int | float), "knowledge.range", range_, "a number")
        try:
            return FixedPoint(bits=bits, fraction=fraction, range=range_)  # type: ignore[arg-type]
        except UsageError as error:
            raise TraceError(f"trace: header: {error}") from None

    @property
    def number_format(self) -> str:
        """`float32` or `float64`: how exact messages and true updates are at best.

        What the fact `number_format` says, where messages hold fewer digits than their dtype; else the dtype.
        """
        stated = self.knowledge.get("number_format")
        if stated in DTYPES:
            return str(stated)
        return "float64" if self.kind == "masked" else self.dtype

    @property
    def feature_format(self) -> str:
        """`float32` or `float64`: how exact the features are that clients learn from.

        What the fact `feature_dtype` says; else float32 in Runs of foltr-audit, and the format of the
        messages in traces of other systems.
        """
        stated = self.knowledge.get("feature_dtype")
        if stated in DTYPES:
            return str(stated)
        return "float32" if self.spec_hash else self.number_format

    def to_toml(self) -> str:
        """The canonical TOML form: fixed order of fields, knowledge sorted by name."""
        return tomli_w.dumps(self._table())

    def _table(self) -> dict[str, object]:
        table = {"schema": self.schema, **vars(self)}
        dataset = {**vars(table.pop("dataset")), "parts": list(self.dataset.parts)}
        return table | {"dataset": dataset, "knowledge": table.pop("knowledge")}

    @property
    def trace_id(self) -> str:
        """SHA-256 (hex) of the canonical TOML: the id of a trace that is written with this header."""
        return hashlib.sha256(self.to_toml().encode("utf-8")).hexdigest()

    def first_difference(self, other: TraceHeader) -> tuple[str, object, object] | None:
        """Name of the first field that differs and both values (None: absent); None where all are equal."""
        mine, theirs = self._flat(), other._flat()
        for name in mine | theirs:
            a, b = mine.get(name), theirs.get(name)
            if type(a) is not type(b) or a != b:
                return name, a, b
        return None

    def _flat(self) -> dict[str, object]:
        flat = self._table()
        for name in ("dataset", "knowledge"):
            flat |= {f"{name}.{key}": fact for key, fact in cast("dict[str, object]", flat.pop(name)).items()}
        return flat


def read_header(folder: Path) -> tuple[TraceHeader, str]:
    """The header of the trace in a folder, and the trace id.

    Raises:
        TraceError: no header, broken TOML, a newer schema, a missing, unknown or bad field.
    """
    path = folder / HEADER
    if not path.is_file():
        raise TraceError(f"trace: {folder}: no {HEADER} in it, so it is not a trace")
    where = f"trace: {path}"
    data = file_bytes(path, TraceError, MOST_HEADER_BYTES, "trace: ")
    table = toml_table(decoded(data, where, TraceError), where, TraceError)
    try:
        return header_from(table), hashlib.sha256(data).hexdigest()
    except TraceError as error:
        raise TraceError(str(error).replace("trace: header:", f"{where}:", 1)) from None


def header_from(table: Mapping[str, object]) -> TraceHeader:
    """The header from its parsed TOML; every field must be present, and no other.

    Raises:
        TraceError: as `read_header`.
    """
    if "schema" in table:  # first: a newer schema may well have other fields
        _check_schema(table["schema"])
    _check_names(table, [f.name for f in fields(TraceHeader)], "")
    for name in ("dataset", "knowledge"):
        _check(isinstance(table[name], dict), name, table[name], "a table")
    dataset = cast("dict[str, Any]", table["dataset"])  # the classes check the types of their fields
    _check_names(dataset, [f.name for f in fields(TraceDataset)], "dataset.")
    _check(isinstance(dataset["parts"], list), "dataset.parts", dataset["parts"], "a list")
    return TraceHeader(**cast("dict[str, Any]", {**table, "dataset": TraceDataset(**dataset)}))


def _check(good: bool, name: str, value: object, expected: str) -> None:
    if not good:
        raise TraceError(f"trace: header: {name} is {shortened(value)}, expected {expected}")


def shortened(value: object) -> str:
    """A value as Python writes it, at most 80 characters of it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_schema(schema: object) -> None:
    family, _, version = SCHEMA.rpartition("/")
    found, _, other = str(schema).rpartition("/")
    newer = found == family and (whole_number(other, 0, 10**9) or 0) > int(version)
    _check(schema == SCHEMA, "schema", schema, SCHEMA + (" (a newer foltr-audit wrote it)" if newer else ""))


def _check_names(table: Mapping[str, object], names: list[str], prefix: str) -> None:
    for name in names:
        if name not in table:
            raise TraceError(f"trace: header: field {prefix}{name} is missing")
    for name in table:
        if name not in names:
            raise TraceError(f"trace: header: unknown field {prefix}{name}")


_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "TraceDataset": (TraceDataset, "a table"),
    "dict[str, Fact]": (dict, "a table"),
}


def _check_types(record: TraceHeader | TraceDataset, prefix: str) -> None:
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == "parts":
            _check(all(isinstance(part, str) for part in value), prefix + "parts", value, "a list of texts")
            continue
        kind, expected = _TYPES[str(item.type)]
        good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        _check(good, prefix + item.name, value, expected)


def _check_fact(name: str, value: object) -> None:
    texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    good = texts or (
        isinstance(value, str | int | float) and not (isinstance(value, float) and math.isnan(value))
    )
    _check(good, f"knowledge.{name}", value, "text, a number (not NaN), true or false, or a list of texts")
