"""What is stored of a run: its records, a line each, and the arrays that they describe.

```
spec.toml       the Spec, canonical
arrays.npz      metrics of the rounds, nDCG by query, judged lists
records.jsonl   records, and the SHA-256 of the arrays; written last, so that a run with it is finished
```
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG, mean_of_rounds, online_sum
from foltr_audit.core.results import (
    AnyRecord,
    AuditRecord,
    DataRecord,
    EvidenceRecord,
    GapRecord,
    ProofRecord,
    Record,
    RunRecord,
    UtilityRecord,
)
from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.data.values import MAX_LABEL
from foltr_audit.errors import TraceError, UsageError, first_problem
from foltr_audit.experiments.run import Run, RunRecords, World, proofs_of, utility_record
from foltr_audit.experiments.runs.folder import ARRAYS, PLAN, RECORDS, SPEC, RunFolder, read_plan
from foltr_audit.experiments.versions import code_of
from foltr_audit.judge.click_evidence import PER_LIST, ClickEvidence, ClickGuesses
from foltr_audit.recorder.trace_files import archive_of
from foltr_audit.simulation.client_population import ClientPopulation
from foltr_audit.simulation.evaluation import OfflineMetrics
from foltr_audit.simulation.federation import Federation, bytes_per_client
from foltr_audit.simulation.intent_metrics import Rows, of_intent
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import MOST_UNPACKED, ArraySchema, read_archive, refuse_other_forms

SCHEMA = "foltr-audit/records/1"

MOST_BYTES = 64 << 20
"""A longer file of records is not read."""

_ANY: TypeAdapter[AnyRecord] = TypeAdapter(AnyRecord)
_OTHER_VERSION = "made by another version; run again with --overwrite"
R = TypeVar("R", bound=Record)


def records_text(records: Iterable[Record], **header: str) -> str:
    """The text of a file of records; the same bytes for the same records."""
    lines = [json.dumps({"schema": SCHEMA, **header}), *(record.line() for record in records)]
    return "\n".join(lines) + "\n"


def read_records(path: Path, spec: Spec | None = None) -> tuple[dict[str, JsonValue], list[AnyRecord]]:
    """The header of a file of records, and its records; of a run those that each run has, once each."""
    first, *lines = file_bytes(path, TraceError, MOST_BYTES).removesuffix(b"\n").split(b"\n")
    header = json_table(first, f"{path}: line 1", TraceError)
    if header.get("schema") != SCHEMA:
        raise TraceError(f"{path}: line 1: {_OTHER_VERSION}")
    records = [_record(line, f"{path}: line {number}") for number, line in enumerate(lines, 2)]
    if spec is not None:
        for kind in (RunRecord, DataRecord, UtilityRecord):
            if len(of_kind := records_of(kind, records)) != 1:
                raise TraceError(f"{path}: damaged: {len(of_kind)} of kind {kind.__name__}; expected one")
        if records_of(RunRecord, records)[0].run != spec.hash:
            raise TraceError(f"{path}: made by another Spec than {spec.hash[:12]}")
    return header, records


def records_of(kind: type[R], records: Iterable[Record]) -> tuple[R, ...]:
    """The records of one kind, in order."""
    return tuple(record for record in records if isinstance(record, kind))


def _record(line: bytes, where: str) -> AnyRecord:
    table = json_table(line, where, TraceError)
    try:
        return _ANY.validate_python(table)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] == "union_tag_invalid":
            raise TraceError(f"{where}: {_OTHER_VERSION}") from error
        raise TraceError(f"{where}: damaged: {first_problem(error)}") from error


_ROUNDS, _LISTS, _GUESSED = "rounds/", "lists/", "guessed/"

Arrays = dict[str, NDArray[Any]]

_MOST = 2.0**40  # counts of a stored file above this are damage, and are refused before anything is allocated
_ANSWERS = tuple(each.name for each in fields(ClickGuesses))
_LABELS = ("baselines", "probabilities", "exact")
_FACTS = ("same_message", "groups", "refused", "steps", "clipped")
"""What describes evidence besides its arrays: sets of labels, and other values."""
_FORMS = {
    r"rounds/.+": ArraySchema("f8", "T"),
    r"query_ndcg": ArraySchema("f8", "Q", 0, 1),
    r"validation_ndcg": ArraySchema("f8", "V", 0, 1),
    r"lists/query": ArraySchema("U", "L"),
    r"lists/(message|rank|unknowns|group)": ArraySchema("i8", "L", 0, _MOST),
    r"lists/shown": ArraySchema("i8", "Lk", -1, _MOST),
    r"lists/(clicks|observed|told)": ArraySchema("b1", "Lk"),
    r"lists/surprisal": ArraySchema("f8", "L"),
    r"guessed/\d+/scores": ArraySchema("f8", "Lk"),
    r"guessed/\d+/guess": ArraySchema("b1", "Lk"),
    r"guessed/\d+/(any_click|surprisal)": ArraySchema("f8", "L"),
}
CURVES = ("round", ONLINE_NDCG, OFFLINE_NDCG)
"""Metrics that every run has for each round."""


def read_arrays(content: bytes | Path, where: str = ARRAYS) -> Arrays:
    """The arrays of a run, of a file or its content; a `TraceError` for others, or far more than its size."""
    arrays = read_archive(content, where, TraceError)
    try:
        refuse_other_forms(arrays, _FORMS)
    except ValueError as error:
        raise TraceError(f"{where}: damaged: {error}") from error
    return arrays


def _rounds_in(arrays: Mapping[str, NDArray[Any]], number: int) -> dict[str, Floats]:
    """Metrics of the training rounds by name, float64 (T,) each; an error if they are of other rounds."""
    rounds = {name.removeprefix(_ROUNDS): arrays[name] for name in arrays if name.startswith(_ROUNDS)}
    for name in CURVES:
        if name not in rounds:
            raise ValueError(f"{_ROUNDS}{name}: missing")
        if name != "round" and np.any((rounds[name] < 0) | (rounds[name] > 1)):
            raise ValueError(f"{_ROUNDS}{name}: a value outside of 0 to 1")
    if not np.array_equal(rounds["round"], np.arange(number)):
        raise ValueError(f"{_ROUNDS}round: expected the {number} rounds of the Spec")
    return rounds


def _evidence_in(arrays: Mapping[str, NDArray[Any]], described: EvidenceRecord) -> ClickEvidence:
    """Judged lists and guesses; an error if they are not what is described, or do not fit each other."""
    expected = {f"{_LISTS}{name}" for name in PER_LIST}
    for number, label in enumerate(described.guessed):
        absent = set() if label in described.surprised else {"surprisal"}
        expected |= {f"{_GUESSED}{number}/{name}" for name in _ANSWERS if name not in absent}
    there = {name for name in arrays if name.startswith((_LISTS, _GUESSED))}
    if there != expected:
        odd = min(there ^ expected)
        raise ValueError(f"{odd}: {'missing' if odd in expected else 'not expected'}")
    lists = {name: arrays[f"{_LISTS}{name}"] for name in PER_LIST}
    _refuse_odd_lists(lists, len(described.groups))
    guessed = {
        label: ClickGuesses(**{name: arrays.get(f"{_GUESSED}{number}/{name}") for name in _ANSWERS})  # type: ignore[arg-type]
        for number, label in enumerate(described.guessed)
    }
    for label, answers in guessed.items():
        if np.isnan(answers.scores[lists["shown"] >= 0]).any():
            raise ValueError(f"scores of {label}: NaN for a document")
    sets = {name: frozenset(getattr(described, name)) for name in _LABELS}
    facts: dict[str, Any] = {**lists, **sets, **{name: getattr(described, name) for name in _FACTS}}
    return ClickEvidence(**facts, guessed=guessed)


def _refuse_odd_lists(lists: Mapping[str, NDArray[Any]], groups: int) -> None:
    """Raise a `ValueError` for lists whose values do not fit each other."""
    shown, clicks = lists["shown"] >= 0, lists["clicks"]
    if np.any(shown[:, 1:] & ~shown[:, :-1]):
        raise ValueError("lists/shown: a document after the padding")
    if np.any(clicks & ~shown):
        raise ValueError("lists/clicks: a click where the list is padded")
    if lists["group"].max(initial=0) >= groups:
        raise ValueError(f"lists/group: {lists['group'].max()}; expected less than {groups}")


ONLINE_SUM, ONLINE_MEAN = "online_sum", "online_mean"
"""Metrics of a run beside those of its last round."""
FINAL = "final"
"""Short name of the offline nDCG@10 of the trained model."""


Files = dict[str, bytes]
"""Contents by name; the last one is written last, so that a run with that file is finished."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRun(RunRecords):
    """One finished run.

    `evidence` is None without an attack, or where it had nothing to read. Metrics of the training `rounds`
    are float64 (T,) each; the nDCG@10 of the trained model is one number for each query, NaN where it does
    not count.
    """

    gaps: tuple[GapRecord, ...] = ()
    evidence: ClickEvidence | None = None
    too_short: int = 0
    rounds: dict[str, Floats]
    query_ndcg: Floats
    validation_ndcg: Floats

    @property
    def metrics(self) -> dict[str, float]:
        """Every metric of the last round, and sum and mean of the online nDCG@10."""
        last = {name: float(values[-1]) for name, values in self.rounds.items() if name != "round"}
        online = self.rounds[ONLINE_NDCG]
        return last | {ONLINE_SUM: online_sum(online), ONLINE_MEAN: mean_of_rounds(online)}

    @property
    def rows(self) -> Rows:
        """The metrics of the training rounds, one row each."""
        return [dict(zip(self.rounds, row, strict=True)) for row in zip(*self.rounds.values(), strict=True)]

    @cached_property
    def world(self) -> World:
        """Whose clicks trained the model, as its scenarios say again.

        Raises:
            UsageError: a plug-in of the Spec is not installed.
        """
        clients = ClientPopulation(
            spec=self.spec.population,
            rounds=self.spec.train.rounds,
            learner=make(Learner, self.spec.train.learner),
            intents_of_data=next(n for n in count(1) if of_intent(n) not in self.rounds),
            largest_label=min(self.data.largest_label or 0, MAX_LABEL),  # a damaged file may say anything
        )
        return World.of(self.spec, clients)


def pack_run(run: Run, setup: Setup, *, lists: bool = True) -> Files:
    """The files of a run, with or without its judged lists; they hold no time, host or processor."""
    trained, protocol = run.trained, run.spec.attack
    validation = OfflineMetrics(setup.collection, setup.ranker, setup.clients, setup.spec.train, part="vali")
    federation = Federation(setup)
    weights = federation.weights_after(run.spec.train.rounds - 1)
    names = dict.fromkeys(name for row in trained.rounds for name in row)
    arrays: Arrays = {
        f"{_ROUNDS}{name}": np.array([row.get(name, np.nan) for row in trained.rounds], dtype=np.float64)
        for name in names
    }
    arrays["query_ndcg"] = federation.evaluation.by_query(trained.parameters, weights)
    arrays["validation_ndcg"] = validation.by_query(trained.parameters, weights)
    utility = utility_record(
        trained,
        validation=validation.ndcg(trained.parameters, weights),
        bytes_per_client=bytes_per_client(
            setup.learner, setup.chain, setup.ranker.n_parameters, run.spec.trace, trained.rounds
        ),
    )
    record = run.record.model_copy(update={"code": code_of(run.spec)})
    records: list[Record] = [record, run.data, utility, *proofs_of(setup.privacy, protocol), *run.audits]
    for click_model, evidence in run.attacks.evidence.items() if lists else ():  # a cell has one click model
        described, lists_of = _packed(evidence, click_model, run)
        records.append(described)
        arrays |= lists_of
    if run.attacks.unread:
        records.append(GapRecord(what="nothing to read", run=run.spec.hash, why=run.attacks.unread))
    return packed_files(run.spec, records, arrays)


def packed_files(spec: Spec, records: Sequence[Record], arrays: Arrays) -> Files:
    """The files of records and arrays; the same bytes for equal ones."""
    packed = archive_of(arrays, zipfile.ZIP_DEFLATED)
    text = records_text(records, arrays=hashlib.sha256(packed).hexdigest())
    return {SPEC: spec.toml.encode(), ARRAYS: packed, RECORDS: text.encode()}


def _packed(evidence: ClickEvidence, click_model: str, run: Run) -> tuple[EvidenceRecord, Arrays]:
    """Judged lists and guesses: what describes them, and their arrays."""
    arrays: Arrays = {f"{_LISTS}{name}": getattr(evidence, name) for name in PER_LIST}
    for number, guessed in enumerate(evidence.guessed.values()):
        for name in _ANSWERS:
            if (answer := getattr(guessed, name)) is not None:
                arrays[f"{_GUESSED}{number}/{name}"] = answer
    labels = {name: tuple(sorted(getattr(evidence, name))) for name in _LABELS}
    facts: dict[str, Any] = {**labels, **{name: getattr(evidence, name) for name in _FACTS}}
    record = EvidenceRecord(
        click_model=click_model,
        view="" if run.spec.attack is None else run.spec.attack.view,
        guessed=tuple(evidence.guessed),
        surprised=tuple(label for label, of in evidence.guessed.items() if of.surprisal is not None),
        too_short=run.attacks.too_short,
        **facts,
    )
    return record, arrays


def read_run(folder: Path, spec: Spec) -> StoredRun:
    """The finished run in a folder; a `TraceError` if it is damaged, or of another Spec or version."""
    header, records = read_records(folder / RECORDS, spec)
    path, again = folder / ARRAYS, f"delete {folder}, then --resume runs it again"
    packed = file_bytes(path, TraceError, MOST_UNPACKED)
    if hashlib.sha256(packed).hexdigest() != header.get("arrays"):
        raise TraceError(f"{path}: damaged: not the content that {RECORDS} names; {again}")
    arrays = read_arrays(packed, str(path))
    described = next(iter(records_of(EvidenceRecord, records)), None)
    try:
        return StoredRun(
            spec=spec,
            record=records_of(RunRecord, records)[0],
            data=records_of(DataRecord, records)[0],
            utility=records_of(UtilityRecord, records)[0],
            proofs=records_of(ProofRecord, records),
            audits=records_of(AuditRecord, records),
            gaps=records_of(GapRecord, records),
            evidence=None if described is None else _evidence_in(arrays, described),
            too_short=0 if described is None else described.too_short,
            rounds=_rounds_in(arrays, spec.train.rounds),
            query_ndcg=arrays["query_ndcg"],
            validation_ndcg=arrays["validation_ndcg"],
        )
    except (ValueError, KeyError) as error:
        raise TraceError(f"{folder}: damaged: {error}; {again}") from error


def read_runs(path: Path) -> dict[Path, StoredRun]:
    """The finished Runs of an `--out` folder by their own folder, in the order of its plan."""
    if (path / PLAN).is_file():
        specs = {path / spec.hash[:12]: spec for spec in read_plan(path).specs}
    elif (path / "trace.toml").exists() and not (path / SPEC).exists():
        raise UsageError(f"{path}: a trace without its Run; expected a folder that --out made")
    else:
        specs = {path: RunFolder.open(path).spec}
    runs = {}
    for inner, spec in specs.items():
        if not (inner / SPEC).is_file():
            raise UsageError(
                f"{path}: unfinished, Run {inner.name} of its {PLAN} is missing; end the run with --resume"
            )
        difference = first_difference(RunFolder(inner).spec.public, spec.public)
        if difference is not None:
            raise TraceError(f"{inner / SPEC}: another Spec than in {PLAN}: {difference}")
        if not (inner / RECORDS).is_file():
            raise UsageError(f"{inner}: unfinished; end the run with --resume")
        runs[inner] = read_run(inner, spec)
    return runs
