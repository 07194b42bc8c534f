"""The stages of one run: training, messages of fresh clients, and attacks that the judge scores."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from foltr_audit.core.plugins import Attack, ClientStep
from foltr_audit.core.plugins.registry import baselines, make
from foltr_audit.core.ranking_metrics import (
    LAST_ROUNDS,
    OFFLINE_NDCG,
    ONLINE_NDCG,
    mean_of_rounds,
    online_sum,
)
from foltr_audit.core.records import Collection
from foltr_audit.core.records.population import ONE_GROUP, SEVERAL, ClientGroups
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.train import ZEROS, start_norm
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import RunFolder, load_model
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import TaskEvidence, judge, stand_ins
from foltr_audit.judge.task import NothingToReadError
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation, RoundResult
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.intent_metrics import PLAYED
from foltr_audit.simulation.recorder import RoundStore, record_rounds, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.array_memo import at_least_remembering
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.progress import SILENT, Progress, Stopwatch

_LOG = logging.getLogger(__name__)

_MOST_SHARED = 64 << 20
"""Bytes of arrays that the click models of one attack share: their clients see the same lists."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainResult:
    """A trained global model, float64 (P,), and the metrics of its training.

    A round has `round`, `clipped`, and the metrics of `ONLINE` and `OFFLINE` in `core.ranking_metrics`.
    Interactions and seconds are those of this call: a resumed run had some before. Loading data does not
    count; a first run compiles its kernels, so that `later` has those after the first round. `recording` is
    the rounds themselves; without their messages where they were not recorded, or None. `along` are the
    global models (P,) that were requested, of rounds spread evenly over the run, the first and the trained
    one included.
    """

    parameters: Floats
    rounds: list[dict[str, float]]
    untrained: float
    ceiling: float
    interactions: int
    seconds: float
    later: tuple[int, float] = (0, 0.0)
    recording: RoundStore | None
    along: tuple[Floats, ...] = ()

    @property
    def ndcg(self) -> float:
        """Offline nDCG@10 of the trained model."""
        return self.rounds[-1][OFFLINE_NDCG]

    @property
    def online_sum(self) -> float:
        """Discounted sum of the rounds' online nDCG@10."""
        return online_sum(self._column(ONLINE_NDCG))

    @property
    def online_mean(self) -> float:
        """Mean of the rounds' online nDCG@10."""
        return mean_of_rounds(self._column(ONLINE_NDCG))

    @property
    def maxrr_last(self) -> float:
        """Mean of the last rounds' online MaxRR."""
        return mean_of_rounds(self._column("maxrr")[-LAST_ROUNDS:])

    @property
    def clipped(self) -> float:
        """Share of all local steps that were clipped."""
        return mean_of_rounds(self._column("clipped"))

    def _column(self, name: str) -> Floats:
        return np.array([row[name] for row in self.rounds], dtype=np.float64)


def first_model(setup: Setup) -> Floats:
    """The global model that training starts from, float64 (P,)."""
    init, ranker = setup.spec.train.init, setup.ranker
    if init is None:
        return ranker.initial(setup.streams.generator("init"))
    if init == ZEROS:
        return np.zeros(ranker.n_parameters)
    if (norm := start_norm(init)) is not None:
        direction = setup.streams.generator("init").standard_normal(ranker.n_parameters)
        # Correctly rounded, so that no processor changes a bit.
        return direction * (norm / math.sqrt(math.fsum(direction**2)))
    return load_model(Path(init), ranker.n_parameters)


def train(
    setup: Setup,
    folder: RunFolder | None = None,
    *,
    keep: bool = False,
    along: int = 0,
    progress: Progress = SILENT,
) -> TrainResult:
    """Play all rounds of a Spec.

    An unfinished trace in the folder is resumed, if it is of the same header and first model; without a
    folder, the rounds are kept in memory if `keep`. `along`: how many global models to return, of rounds
    spread over the run.
    """
    spec = setup.spec
    stored = spec.trace.every > 0 and (keep or folder is not None)
    federation, start = Federation(setup, sums_only=not stored), first_model(setup)
    header = trace_header(
        setup, setup.clients.population.click_model(spec.train.click_model), spec.population.cohort_size
    )
    _LOG.info(
        "training: %d round%s of %d clients, defense %s",
        spec.train.rounds,
        "s" * (spec.train.rounds != 1),
        spec.population.cohort_size,
        "+".join(spec.defense),
    )
    each, watch = spec.population.cohort_size * setup.clients.interactions, Stopwatch()
    wanted = [round(place) for place in np.linspace(0, spec.train.rounds, along).tolist()]
    models: dict[int, Floats] = {}

    def keep_models(rounds: Iterable[RoundResult]) -> Iterator[RoundResult]:
        for played in rounds:
            if played.context.round in wanted:
                models[played.context.round] = np.array(played.context.parameters)
            yield played

    with progress.task("train", spec.train.rounds, each) as tick:
        recording = record_rounds(
            lambda first, last: keep_models(
                watch.over(federation.rounds(start if last is None else last, first))
            ),
            folder.signed(header) if folder else header,
            folder.training if folder else None,
            setup.collection,
            resume=bool(folder and folder.resume),
            keep=keep,
            tick=tick,
            every=spec.trace.every,
        )
    parameters = recording.last_model().parameters
    if folder is not None:
        if not np.array_equal(next(recording.rounds()).parameters, start):
            raise UsageError(f"--resume: {folder.path} was started from another model than --init names")
        folder.save_model(parameters)
        for record in recording.rounds() if along else ():  # also those that were recorded before
            if record.round in wanted:
                models[record.round] = np.array(record.parameters)
    # Only rounds of this call have a time: those that were recorded before count for no speed.
    evaluation, weights = federation.evaluation, federation.clientele.weights(0)
    rounds = recording.metrics()
    here = rounds[len(rounds) - watch.pieces :]
    return TrainResult(
        parameters=parameters,
        rounds=rounds,
        untrained=evaluation.ndcg(start, weights),
        ceiling=evaluation.ceiling,
        interactions=int(sum(row.get(PLAYED, each) for row in here)),
        seconds=watch.seconds,
        later=(int(sum(row.get(PLAYED, each) for row in here[1:])), watch.seconds - watch.first),
        recording=recording,
        along=tuple((models | {spec.train.rounds: parameters})[number] for number in wanted),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackFindings:
    """What attacks found, by the click model of the attacked clients.

    `too_short` queries were left out for having too few documents; `unread` says why attacks had nothing to
    read.
    """

    found: Mapping[str, TaskEvidence] = field(default_factory=dict)
    too_short: int = 0
    unread: str = ""

    @property
    def evidence(self) -> dict[str, ClickEvidence]:
        """The evidence of attacks on single messages that infer clicks."""
        return {name: one.clicks for name, one in self.found.items() if one.clicks is not None}


def make_attacks(methods: Sequence[str]) -> list[Attack]:
    """Attacks of a Spec, with every registered baseline that can be loaded in front."""
    chosen = [make(Attack, text) for text in (*baselines(), *methods)]
    return list({attack.label: attack for attack in chosen}.values())


def attack_fresh(
    setup: Setup,
    clients: FreshClients,
    parameters: Floats,
    folder: RunFolder | None = None,
    progress: Progress = SILENT,
) -> dict[str, TaskEvidence]:
    """Judge attacks on the messages of fresh clients, who train a given model; results by click model."""
    protocol, found = clients.protocol, {}
    sums_only = folder is None and protocol.view == "cohort"
    groups = ClientGroups.of(setup.clients.population, fresh=True)
    with at_least_remembering(_MOST_SHARED):
        for name in protocol.click_models:
            header = trace_header(setup, name, clients.per_round, protocol.interactions, protocol.lists)
            with progress.task(f"send {name}", clients.n_rounds) as tick:
                recording = record_rounds(
                    partial(clients.rounds, parameters, name, sums_only=sums_only),
                    folder.signed(header) if folder else header,
                    folder.fresh(name) if folder else None,
                    setup.collection,
                    resume=bool(folder and folder.resume),
                    keep=True,
                    tick=tick,
                )
            found[name] = judge_attacks(
                recording, setup.collection, protocol, setup.streams, progress, name, groups
            )
    return found


def attack_training(
    setup: Setup, protocol: AttackSpec, trained: TrainResult, progress: Progress = SILENT
) -> AttackFindings:
    """Judge attacks on the recorded rounds of a training; they may have nothing to read."""
    if trained.recording is None:
        raise UsageError("attack: the training rounds were not recorded; expected messages to attack")
    population = setup.clients.population
    name = population.click_model(setup.spec.train.click_model) or SEVERAL
    data, streams, groups = setup.collection, setup.streams, ClientGroups.of(population)
    try:
        found = judge_attacks(trained.recording, data, protocol, streams, progress, groups=groups)
    except NothingToReadError as error:
        return AttackFindings(unread=str(error))
    return AttackFindings(found={name: found})


def judge_attacks(
    recording: RoundStore,
    collection: Collection | None,
    protocol: AttackSpec,
    streams: Streams,
    progress: Progress = SILENT,
    name: str = "",
    groups: ClientGroups = ONE_GROUP,
    advised: Callable[[str], str] = str,
    client_step: ClientStep | None = None,
) -> TaskEvidence:
    """Judge every attack of a protocol, and every baseline, on recorded rounds that hold their truth.

    Clicks are also judged for each of the `groups` of clients. `advised` adds to the reason why an attack
    cannot run how to give what it misses. `client_step` is what the clients compute, if it is not PDGD.
    """
    observer = Observer(recording.header, collection, frozenset(protocol.hide), client_step)
    methods = protocol.methods_on(recording.header.attacked_kind)
    methods += stand_ins(recording, observer, protocol, streams)
    _LOG.info("attack: %s on %d recorded rounds %s", ", ".join(methods), recording.n_rounds, name)
    try:
        with progress.task(f"attack {name}".strip(), recording.n_rounds) as tick:
            found = judge(recording, observer, make_attacks(methods), streams, protocol, groups, tick)
    except np.linalg.LinAlgError as error:
        raise UsageError(
            f"attack {name}: equations of messages and features cannot be solved ({error}); "
            "expected numbers farther from overflow"
        ) from error
    refuse_if_none_runs(methods, found.refused, advised)
    return found


def refuse_if_none_runs(
    methods: Sequence[str], refused: Mapping[str, str], advised: Callable[[str], str] = str
) -> None:
    """Refuse a protocol of which no attack can run, with the reasons; some may be refused."""
    labels = [make(Attack, text).label for text in methods]
    if all(label in refused for label in labels):
        why = "; ".join(
            f"attack {label}: cannot run on this view: {advised(refused[label])}" for label in labels
        )
        raise UsageError(why)
