"""Attacks on recorded messages: those of a Run folder, or a trace of any system."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foltr_audit.core.plugins import ClientStep
from foltr_audit.core.plugins.attack import UNKNOWN
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, mean_of_rounds
from foltr_audit.core.records import Collection
from foltr_audit.core.records.population import EVERYBODY, SEVERAL, ClientGroups, Population
from foltr_audit.core.records.view import STEP_FACTS
from foltr_audit.core.results import DataRecord, ProofRecord, UtilityRecord
from foltr_audit.core.settings.attack import AttackSpec, changed_protocol
from foltr_audit.core.settings.data import path_name
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.data.intents import balance_collection
from foltr_audit.data.load import load_collection
from foltr_audit.errors import DataError, PluginError, TraceError, UsageError, shorten_value, suggest_name
from foltr_audit.experiments.run import data_record
from foltr_audit.experiments.runner import proven_of
from foltr_audit.experiments.runs.folder import SPEC, RunFolder, report_write_errors, spec_around
from foltr_audit.experiments.stages import judge_attacks, make_attacks, refuse_if_none_runs
from foltr_audit.judge.clicks import infer_round
from foltr_audit.judge.fact_check import FactCheck, TruthCheck, check_facts, check_truth
from foltr_audit.judge.observer import Observer, check_collection, query_names
from foltr_audit.judge.protocol import TaskEvidence, not_for_clicks, seen_as_rounds
from foltr_audit.judge.round_sums import RoundSums
from foltr_audit.recorder import atomic_files
from foltr_audit.rng import Streams
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.simulation.recorder import ObservedRounds
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Fact, Trace, TraceHeader
from foltr_audit.trace.facts import checked_facts, plain_facts
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import whole_number

if TYPE_CHECKING:
    import polars as pl


_FACTS = {
    "interactions": "interactions=1",
    "lists": "lists=sampled",
    "learning_rate": "learning_rate=0.1",
    "pairs": "pairs=all",
    "normaliser": "normaliser=shown",
    "rank_with": "rank_with=local",
    "clip": "clip_norm=1.5",
    "sigma": "sigma=0.05",
    "metric": "metric=maxrr",
    "noise": "noise=none",
    "click_model": "click_model=NAME",
}
"""How the facts behind knowledge are given, by the name of the knowledge."""

_WITH_QUERY = ("shown", "order", "candidates", "relevance", "intents")
"""What is hidden with the query."""

_OF_DATA = ("candidates", "relevance", "intents")


def advise(reason: str, hidden: tuple[str, ...]) -> str:
    """A reason why an attack cannot run, and how to give what it misses, unless that was hidden on purpose.

    >>> advise("the observer does not know: sigma", ())
    'the observer does not know: sigma (give --know sigma=0.05)'
    >>> advise("messages are masked", ())
    'messages are masked'
    """
    if not reason.startswith(UNKNOWN):
        return reason
    known = reason.removeprefix(UNKNOWN).partition(" (")[0]
    withheld = {*hidden, *(_WITH_QUERY if "query" in hidden else ())}
    missing = [name for name in known.split(", ") if name not in withheld]
    if "belief" in missing:  # a baseline: nothing that a user states would make it run
        return reason
    ways = []
    facts = [name for name in missing if name in _FACTS]
    if facts:
        ways.append("give " + " ".join(f"--know {_FACTS[name]}" for name in facts))
    if any(name in _OF_DATA for name in missing):
        ways.append("give its data set with --data")
    if any(name in ("features", "shown", "order", "query") for name in missing):
        ways.append("record the shown lists with the messages")
    if any(name in STEP_FACTS for name in facts):
        ways.append("for a learner other than PDGD give --client-step")
    return f"{reason} ({'; '.join(ways)})" if ways else reason


TARGETS = ("fresh", "training")


class TraceJudgment(NamedTuple):
    """What the attacks found on one trace, by the click model of its clients."""

    click_model: str
    header: TraceHeader
    found: TaskEvidence


@dataclass(frozen=True, kw_only=True)
class TraceAttack:
    """Recorded traces by the click model of their clients, and what is needed to attack them.

    `spec` is that of a Run; None for a bare trace. `data`, `seed`, `intents` and `client_step` replace what
    was recorded. `fresh`: the messages are those of fresh clients of a Run. `known` are facts that were given
    by hand; the headers of `traces` hold them.
    """

    path: Path
    traces: dict[str, Trace]
    spec: Spec | None
    protocol: AttackSpec
    data: str | None
    seed: int | None = None
    fresh: bool = False
    intents: str | None = None
    client_step: ClientStep | None = None
    known: Mapping[str, Fact] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        target: str | None = None,
        data: str | None = None,
        seed: int | None = None,
        intents: str | None = None,
        changes: Mapping[str, object] | None = None,
        know: Mapping[str, object] | None = None,
        client_step: ClientStep | None = None,
    ) -> TraceAttack:
        """Open a Run folder or a trace.

        `changes` are fields of the `AttackSpec` that replace those of the Run, unless they are None; `know`
        are facts that replace those of the headers. Without `client_step`, the fact of this name in the
        header names a registered one.

        Of a Run, `target` selects the messages of the `fresh` clients or of the `training` rounds; the
        default is the target of its Spec.
        """
        if target is not None and target not in TARGETS:
            raise UsageError(f"--target: unknown {target!r}; {suggest_name(target, TARGETS)}")
        spec, fresh = None, False
        if (path / "trace.toml").is_file():
            trace = Trace.open(path)
            traces = {str(trace.header.knowledge.get("click_model", "recorded")): trace}
        else:
            folder = RunFolder.open(path)
            spec = folder.spec
            traces = {} if target == "training" else folder.fresh_traces()
            if target == "fresh" and not traces:
                raise UsageError(f"--target fresh: {path} holds no messages of fresh clients")
            fresh = bool(traces)
            if not traces:
                training = Trace.open(folder.training)
                named = training.header.knowledge.get("click_model", SEVERAL)
                traces = {str(named): training}
            for trace in traces.values():
                if trace.header.spec_hash != spec.hash:
                    raise TraceError(f"{trace.folder}: made by another Spec than {path / SPEC}")
        recorded = spec.attack if spec and spec.attack else AttackSpec(target="training")
        given = {name: value for name, value in (changes or {}).items() if value is not None}
        if given.get("view") in ("aggregate", "client") and not fresh:
            given |= {"target": "training", "lists": None}
        known = checked_facts(know or {})
        traces = {name: trace.with_facts(known) for name, trace in traces.items()}
        return cls(
            path=path,
            traces=traces,
            spec=spec,
            protocol=changed_protocol(recorded, given),
            data=data,
            seed=seed,
            fresh=fresh,
            intents=intents,
            client_step=client_step or _declared_step(traces),
            known=known,
        )

    @property
    def has_truth(self) -> bool:
        """Whether every trace can be scored."""
        return all(trace.has_truth for trace in self.traces.values())

    @property
    def methods(self) -> tuple[str, ...]:
        return self.protocol.methods_on(self.header.attacked_kind)

    @property
    def header(self) -> TraceHeader:
        """The header of the first trace; all have the same data."""
        return next(iter(self.traces.values())).header

    @cached_property
    def collection(self) -> Collection | None:
        """The data set behind the messages; None where the trace embeds features instead.

        Raises:
            UsageError, DataError: no data set is there, of the trace or in place of it.
            TraceError: it is another one than the recorded one.
        """
        header, recorded = self.header, self.header.dataset
        if header.embeds_features and self.data is None:
            return None
        if not recorded.source and self.data is None:
            raise UsageError(
                f"trace: {self.path}: features are not embedded, and it names no data; give --data"
            )
        spec, knows = self.spec, header.knowledge.get
        if spec is None and header.spec_hash:
            spec = spec_around(self.path, header.spec_hash)
        wanted = {
            "source": self.data or (recorded.source if spec is None else spec.data.source),
            "fold": recorded.fold,
            "normalise": recorded.normalised,
            "missing": knows("missing") if spec is None else spec.data.missing,
            "dtype": knows("feature_dtype", "float32"),
            "intents": self.intents or (knows("intents_from") if spec is None else spec.data.intents),
            "document_order": knows("document_order", "content"),
        }
        try:
            found = load_collection(Spec.parse({"data": wanted}, f"trace: {self.path}").data, self.used_seed)
        except DataError as error:
            if self.data is not None:
                raise
            if not recorded.fingerprint:
                raise UsageError(
                    f"trace: {self.path}: no documents are recorded, and {recorded.source!r:.60} is no data "
                    "set here; record the lists of clients that agree, or give --data"
                ) from error
            raise UsageError(f"{error}; give the data set of the trace with --data") from error
        for trace in self.traces.values():
            check_collection(trace.header, found)
        numbered = knows("intents_numbered")
        if not isinstance(numbered, list) or len(numbered) != 2:
            return found
        seed, repetition = (whole_number(text, 0, 2**63 - 1) for text in numbered)
        if seed is None or repetition is None:
            raise TraceError(
                f"{self.path}: fact intents_numbered is {shorten_value(numbered)}; "
                "expected a seed and a repetition"
            )
        return balance_collection(found, Streams(seed, repetition))

    @cached_property
    def setup(self) -> Setup | None:
        """The Run behind the messages; None of a bare trace, and where the data set is not available."""
        if self.spec is None or self.collection is None:
            return None
        return Setup(self.spec, self.collection)

    @property
    def data_record(self) -> DataRecord:
        """The facts of the data; of a trace that embeds features what its header says."""
        if self.collection is not None:
            return data_record(self.collection)
        header, dataset = self.header, self.header.dataset
        return DataRecord.model_construct(  # texts of others are shown as they are, and stored nowhere
            source=path_name(dataset.source),
            synthetic=dataset.source.startswith("synthetic:"),
            normalised=dataset.normalised,
            features=header.parameters if header.ranker == "linear" else None,
            parameters=header.parameters,
            fold=dataset.fold,
            fingerprint=dataset.fingerprint,
        )

    @property
    def population(self) -> Population:
        """Who sent the messages: one group where their Run is not known."""
        return EVERYBODY if self.setup is None else self.setup.clients.population

    @property
    def used_seed(self) -> int:
        """The given seed, else the Run's; a bare trace does not reveal its seed, so 1."""
        if self.seed is not None:
            return self.seed
        return self.spec.seed if self.spec else 1

    @property
    def streams(self) -> Streams:
        """The named random streams of attacks on these messages."""
        return Streams(self.used_seed, self.spec.repetition if self.spec else 0)

    def _observer(self, trace: Trace) -> Observer:
        return Observer(trace.header, self.collection, client_step=self.client_step)

    @cached_property
    def facts(self) -> dict[str, FactCheck]:
        """Whether the facts of each trace explain its messages, by click model."""
        return {
            name: check_facts(trace.on(self.collection), self._observer(trace))
            for name, trace in self.traces.items()
        }

    @cached_property
    def truth(self) -> dict[str, TruthCheck]:
        """Whether the truth of each trace belongs to its messages, by click model; else a `TraceError`."""
        malicious = None if self.setup is None or self.fresh else self.setup.malicious
        among = None if malicious is None else malicious.among
        return {
            name: check_truth(trace.on(self.collection), self._observer(trace), among)
            for name, trace in self.traces.items()
            if trace.has_truth
        }

    def truth_warnings(self) -> Iterator[CodedWarning]:
        """Why the truth was not compared with the messages, a line for each reason."""
        reasons = dict.fromkeys(check.text for check in self.truth.values() if check.reason is not None)
        yield from (coded("truth", text) for text in reasons)

    def advised(self, reason: str) -> str:
        """A reason why an attack cannot run, with how to give the facts that it misses."""
        return advise(reason, self.protocol.hide)

    def notes(self) -> Iterator[CodedWarning]:
        """What a reader of reports must know about the truth and about who has the lists, a line each."""
        yield from self.truth_warnings()
        for trace in self.traces.values():
            if trace.header.knowledge.get("lists_known") == "auditor":
                given = "given the shown lists, which this server does not have (fact lists_known)"
                yield coded("lists of the auditor", given)
            sums = self.protocol.sums_of_rounds
            if self.spec is None and trace.header.kind == "masked" and not sums:
                yield coded("masked messages", "messages are masked; --view aggregate attacks their sums")
            if sums and (unlisted := sum(record.unlisted for record in RoundSums(trace).rounds())):
                lost = "have no recorded list: what these clients learned counts as noise of an unknown law"
                yield coded("unlisted messages", f"{unlisted} messages in the sums {lost}")

    def judged(self, progress: Progress = SILENT) -> Iterator[TraceJudgment]:
        """Run the attacks on the messages of each trace, and add the truth, if it is theirs."""
        _ = self.truth
        groups = ClientGroups.of(self.population, fresh=self.fresh)
        for click_model, trace in self.traces.items():
            found = judge_attacks(
                trace.on(self.collection),
                self.collection,
                self.protocol,
                self.streams,
                progress,
                click_model,
                groups,
                self.advised,
                self.client_step,
            )
            yield TraceJudgment(click_model, trace.header, found)

    @property
    def proofs(self) -> tuple[ProofRecord, ...]:
        """What is proven for the observer of attacks; nothing without a Spec and its data."""
        return () if self.setup is None else proven_of(self.setup, self.protocol)

    def table(self) -> dict[str, JsonValue]:
        """What is attacked, as a plain table."""
        table: dict[str, JsonValue] = {
            "trace": str(self.path),
            "seed": self.used_seed,
            "methods": list(self.methods),
            "client_step": None if self.client_step is None else self.client_step.text,
            "known": plain_facts(self.known) or None,
            "spec": None if self.spec is None else self.spec.public.table(),
        }
        return {name: value for name, value in table.items() if value is not None}

    def training(self) -> tuple[TraceHeader, list[dict[str, float]]] | None:
        """The header and the metrics of a Run's training rounds; None where none are recorded."""
        if self.spec is None:
            return None
        training = Trace.open(RunFolder(self.path).training)
        rounds = training.metrics() if training.has_truth else []
        return (training.header, rounds) if rounds else None

    def write_guesses(self, path: Path, progress: Progress = SILENT) -> None:
        """Write every attack's score and guess for every shown document into a new CSV or Parquet file."""
        if path.suffix not in (".csv", ".parquet"):
            raise UsageError(f"--guesses: {path}; expected a name ending in .csv or .parquet")
        if path.exists() or not path.parent.is_dir():
            problem = "exists" if path.exists() else "is in no existing folder"
            raise UsageError(f"--guesses: {path} {problem}; expected the name of a new file")
        import polars as pl

        frame = pl.concat(
            [self._guesses(name, trace.on(self.collection), progress) for name, trace in self.traces.items()]
        )
        buffer = io.BytesIO()
        if path.suffix == ".csv":
            frame.write_csv(buffer)
        else:
            frame.write_parquet(buffer)
        # Encoded in memory first, so that a full disk leaves no half of a file.
        with report_write_errors(path):
            atomic_files.write_bytes(path, buffer.getvalue())

    def _guesses(self, click_model: str, trace: Trace, progress: Progress) -> pl.DataFrame:
        import polars as pl

        chosen, pieces = make_attacks(self.methods), []
        others = not_for_clicks(chosen)
        attacks = [attack for attack in chosen if attack.label not in others]
        store: ObservedRounds = trace
        observer = Observer(trace.header, self.collection, frozenset(self.protocol.hide), self.client_step)
        if self.protocol.sums_of_rounds:
            store, observer = seen_as_rounds(trace, observer, self.protocol, self.streams)
        with progress.task(f"attack {click_model}", trace.n_rounds) as tick:
            for record in store.rounds():
                answers = infer_round(record, observer, attacks, self.streams)
                refuse_if_none_runs(self.methods, {**answers.refused, **others}, self.advised)
                names = query_names(record, trace.header, self.collection)
                shown = record.shown
                if self.collection is not None:
                    places = record.part, record.query, shown
                    _, shown = self.collection.in_file(trace.header.dataset.parts, *places)
                row, position = np.nonzero(shown >= 0)
                for label, answer in answers.guessed.items():
                    pieces.append(
                        pl.DataFrame(
                            {
                                "click_model": [click_model] * row.size,
                                "method": [label] * row.size,
                                "round": np.full(row.size, record.round),
                                "slot": record.slot[row],
                                "step": record.step[row],
                                "query": names[row].tolist(),
                                "rank": position + 1,
                                "document": shown[row, position],
                                "score": answer.scores[row, position],
                                "guess": answer.guess[row, position],
                            }
                        )
                    )
                tick()
        return pl.concat(pieces)


def recorded_utility(rounds: Sequence[Mapping[str, float]]) -> UtilityRecord:
    """What recorded rounds say of the trained model."""
    ndcg, clipped = rounds[-1][OFFLINE_NDCG], mean_of_rounds(np.array([row["clipped"] for row in rounds]))
    return UtilityRecord(
        ndcg=None if np.isnan(ndcg) else ndcg,
        evaluated_on=evaluated_on(rounds),
        clipped=None if np.isnan(clipped) else clipped,
    )


def _declared_step(traces: Mapping[str, Trace]) -> ClientStep | None:
    """The registered client step that the header of a trace names, or None."""
    for trace in traces.values():
        named = trace.header.knowledge.get("client_step")
        if isinstance(named, str):
            try:
                return make(ClientStep, named)
            except PluginError as error:
                raise TraceError(f"{trace.folder}: {error}; give --client-step") from error
    return None
