"""What the first round of a trace fixes for all later ones: the header, and the form of its lists."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .array_layout import ONE_ARRAY, LayoutArray, n_parameters
from .part_files import HEADER, TRACE_SCHEMA, VERSION, file_name
from .received_rounds import ListForm
from .toml_text import toml_text

FLOWER_MASKS = "flower-secagg"
"""Value of the fact `masking` for messages of Flower's SecAgg+: a weight, then the parameters."""

METRICS = "es"
"""The kind of messages that are metrics, with the seed of a perturbation."""

WRITER = f"foltr-audit-recorder {VERSION}"


@dataclass(frozen=True, kw_only=True)
class TraceStart:
    """What holds for all rounds of a trace.

    Attributes:
        kind: what a message is: `model`, `update`, `masked` or `es`.
        layout: the arrays of a message; of what was masked, where messages are.
        model: the arrays of a model; of kind `es`, whose messages are metrics, one of all parameters.
        form: what the lists have in common.
        truth: whether truth is written.
        facts: what everybody may know of the system.
        words: number W of words of a masked message; 0 of other kinds.
        ranker: name of the ranker.
        source: what the clients searched.
        parts: names of the parts of the data.
        rounds_per_part: rounds in a part.
    """

    kind: str
    layout: tuple[LayoutArray, ...]
    model: tuple[LayoutArray, ...]
    form: ListForm
    truth: bool
    facts: Mapping[str, object] = field(default_factory=dict)
    words: int = 0
    ranker: str = "linear"
    source: str = "recorded"
    parts: tuple[str, ...] = ("live",)
    rounds_per_part: int = 1

    @property
    def number_format(self) -> str:
        """`float64` where a parameter travels in it, else `float32`."""
        return "float64" if any(place.dtype == "float64" for place in self.layout) else "float32"

    @property
    def bits(self) -> int:
        """Bits of a masked word, as the facts say; 64 where they do not."""
        return int(str(self.facts.get("modulus_bits", self.facts.get("bits", 64))))

    @property
    def intents(self) -> int:
        """Number of intents that users have, as the facts say."""
        return int(str(self.facts.get("intents", 1)))

    @property
    def header(self) -> str:
        """The text of `trace.toml`.

        Raises:
            ValueError: a fact whose value is no text, number, true or false, or list of texts.
        """
        width = {"width": n_parameters(self.layout)} if self.kind == METRICS else {}
        facts = {**width, **self.facts}
        table = {
            "schema": TRACE_SCHEMA,
            "kind": self.kind,
            "dtype": "uint64" if self.kind == "masked" else self.number_format,
            "parameters": n_parameters(self.model),
            "k": self.form.length,
            "has_truth": self.truth,
            "ranker": self.ranker,
            "spec_hash": "",
            "embeds_features": self.form.width > 0,
            "rounds_per_part": self.rounds_per_part,
            "layout": [
                {"name": place.name, "shape": list(place.shape), "dtype": place.dtype}
                for place in self.layout
            ],
            "writer": WRITER,
            "dataset": {
                "source": self.source,
                "fold": 0,
                "fingerprint": "",
                "normalised": "none",
                "parts": list(self.parts),
            },
            "knowledge": dict(sorted(facts.items())),
        }
        return toml_text(table)

    @classmethod
    def read(cls, folder: Path, last_part: int) -> TraceStart:
        """What holds for the trace in a folder, which this version of the recorder has written.

        `last_part`: index of a part whose lists show their form.

        Raises:
            ValueError: a trace of another writer, or a broken one.
        """
        try:
            table = tomllib.loads((folder / HEADER).read_text("utf-8"))
            if table["writer"] != WRITER:
                raise ValueError(f"{folder}: written by {table['writer']}; expected {WRITER}")
            layout = tuple(
                LayoutArray(str(entry["name"]), tuple(entry["shape"]), str(entry["dtype"]))
                for entry in table["layout"]
            )
            return cls(
                kind=table["kind"],
                layout=layout,
                model=model_layout(table["kind"], layout, table["parameters"]),
                form=_form(folder, last_part, table["k"]),
                truth=table["has_truth"],
                facts=table["knowledge"],
                words=n_words(table["kind"], layout, table["knowledge"]),
                ranker=table["ranker"],
                source=table["dataset"]["source"],
                parts=tuple(table["dataset"]["parts"]),
                rounds_per_part=table["rounds_per_part"],
            )
        except (KeyError, TypeError, tomllib.TOMLDecodeError, OSError) as error:
            raise ValueError(f"{folder}: {HEADER} cannot be read: {error!r}") from None


def model_layout(kind: str, layout: tuple[LayoutArray, ...], parameters: int) -> tuple[LayoutArray, ...]:
    """The arrays of a model of P parameters, where those of a message are known."""
    return (LayoutArray(ONE_ARRAY, (parameters,), "float64"),) if kind == METRICS else layout


def n_words(kind: str, layout: Sequence[LayoutArray], facts: Mapping[str, object]) -> int:
    """Number W of words of a masked message: the parameters, after a weight in Flower's; 0 of other kinds."""
    if kind != "masked":
        return 0
    return n_parameters(layout) + (facts.get("masking") == FLOWER_MASKS)


def _form(folder: Path, last_part: int, k: int) -> ListForm:
    with np.load(folder / file_name("observed/interactions", last_part), allow_pickle=False) as lists:
        if "features" not in lists.files:
            return ListForm(length=k)
        features = lists["features"]
    return ListForm(
        length=k,
        width=features.shape[2],
        dtype=features.dtype.name,
        candidates=(folder / file_name("observed/candidates", last_part)).exists(),
    )
