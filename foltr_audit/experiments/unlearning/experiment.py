"""The experiment on unlearning: many trainings that clients leave, and as many that they were never in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from foltr_audit.auditing.function_audit import audit_outputs
from foltr_audit.auditing.function_outputs import MOST_NUMBERS, FunctionOutputs
from foltr_audit.core.records.population import ONE_GROUP
from foltr_audit.core.results import Estimate, FunctionRecord
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import FunctionAuditSpec
from foltr_audit.core.settings.defaults import MODEL_ATTACKS
from foltr_audit.core.settings.unlearning import UnlearningMethod, UnlearningSpec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import judge_attacks
from foltr_audit.experiments.unlearning.methods import (
    METHODS,
    NOBODY,
    ReducedFederation,
    UnlearnedModel,
    UnlearningRequest,
    retrain,
)
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import SILENT, Progress

VIEWS = ("individual", "aggregate")
"""What may be stored of a round, as in `AttackSpec.view`: every message, or their sum alone."""


def history_leakage(
    setup: Setup, recording: RoundStore | None, progress: Progress = SILENT
) -> Mapping[str, ClickEvidence]:
    """What the first default attack and the baselines read in a recorded training, by `VIEWS`.

    Nothing where no messages were recorded, where secure aggregation hides them, or where the attack cannot
    run, as on neural rankers.
    """
    hidden = setup.chain.encoding is not None
    if recording is None or hidden or setup.spec.trace.every == 0:
        return {}
    found = {}
    for view in VIEWS:
        protocol = AttackSpec.model_validate(
            {"methods": MODEL_ATTACKS[:1], "target": "training", "view": view}
        )
        try:
            judged = judge_attacks(
                recording, setup.collection, protocol, setup.streams, progress, "the history", ONE_GROUP
            )
        except UsageError:  # the attack does not fit the messages: the rest of the report still does
            return {}
        if judged.clicks is not None:
            found[view] = judged.clicks
    return found


def game_settings(settings: UnlearningSpec, seed: int) -> FunctionAuditSpec:
    """The game as an audit of a function whose output is the model; it says how many trainings there are.

    Half as many as are evaluated teach the scores, and a quarter (60 at least) choose score and threshold.
    """
    return FunctionAuditSpec(
        trials=settings.trials,
        delta=settings.delta,
        confidence=settings.confidence,
        estimator="clopper-pearson",
        seed=seed,
    )


def refuse_too_large(audit: FunctionAuditSpec, methods: int, parameters: int) -> None:
    """Refuse a game whose models do not fit into memory."""
    numbers = 2 * audit.calls * methods * parameters
    if numbers > MOST_NUMBERS:
        raise UsageError(
            f"--trials: {audit.trials}; {methods} methods with {parameters} parameters make {numbers:,} "
            f"numbers; expected {MOST_NUMBERS:,} at most: fewer trials or methods"
        )


def play_game(never: Floats, left: Floats, audit: FunctionAuditSpec) -> FunctionRecord:
    """Tell models (N, P) of federations that the clients left from those (N, P) that they were never in.

    Both worlds answer the request with the same method; in the second one nobody is to be forgotten. So the
    bound is on the epsilon of (epsilon, delta)-unlearning of these clients, with their queries fixed, for an
    observer of the model alone. For any method it is too large with probability 1 - confidence at most, since
    trainings are independent.

    Source: Sekhari, Acharya, Kamath & Suresh 2021, "Remember what you want to forget: algorithms for machine
    unlearning", the definition of (epsilon, delta)-unlearning.
    """
    return audit_outputs(FunctionOutputs.of_arrays(never, left), audit)


@dataclass(frozen=True, kw_only=True)
class UnlearningFinding:
    """What one method reaches, and what it takes: means over the trainings that the clients left.

    `distance` is that from its model to the retrained one in L2, `relative` a share of that of the trained
    model; `floor` is the mean distance between retrained models with different random numbers, as the same
    share. The game says whether its models tell that the clients were there.
    """

    method: UnlearningMethod
    trainings: int
    ndcg: Estimate
    distance: Estimate
    relative: Estimate
    floor: float
    client_rounds: float
    interactions: float
    stored_bytes: float
    game: FunctionRecord

    def contradictions(self) -> Iterator[CodedWarning]:
        """A warning where exact unlearning seems to leave something."""
        lower = self.game.lower
        if self.method == "retrain" and lower.epsilon > 0:
            yield coded(
                "exact unlearning",
                f"retrain: eps >= {lower.epsilon:.2g}, where 0 is true: one run in "
                f"{round(1 / (1 - lower.confidence))} shows this by chance; repeat it with another --seed",
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearningResult:
    """The findings of each method, and what the history of one training reveals, see `history_leakage`."""

    findings: tuple[UnlearningFinding, ...] = ()
    leaks: Mapping[str, ClickEvidence] = field(default_factory=dict)


def unlearn(
    setup: Setup, recording: RoundStore | None = None, progress: Progress = SILENT
) -> UnlearningResult:
    """The result of the unlearning protocol of a Spec; empty without one.

    The history of a `recording`, a training of this Spec, is attacked.
    """
    protocol = setup.spec.unlearning
    if protocol is None:
        return UnlearningResult()
    worlds = UnlearningWorlds(setup, protocol)
    audit = game_settings(protocol, setup.spec.seed)
    refuse_too_large(audit, len(worlds.methods), setup.ranker.n_parameters)
    leaks = history_leakage(setup, recording, progress)
    with progress.task("train and unlearn", audit.calls) as tick:
        for trial in range(audit.calls):
            worlds.add(trial)
            tick()
    streams = setup.streams
    resamples = QueryBootstrap(np.arange(audit.calls).astype(np.str_), streams)
    findings = (
        worlds.finding(name, resamples, play_game(*worlds.models(name), audit)) for name in worlds.methods
    )
    return UnlearningResult(findings=tuple(findings), leaks=leaks)


class UnlearningWorlds:
    """Collects what every method makes of trainings with and without the clients that leave."""

    def __init__(self, setup: Setup, protocol: UnlearningSpec) -> None:
        """Prepare the federation; trainings run as they are added."""
        self.federation = ReducedFederation(setup)
        self.protocol = protocol
        self.clients = np.array(protocol.clients, dtype=np.int64)
        self.methods = protocol.chosen(hidden=setup.chain.encoding is not None)
        self._left: dict[str, list[UnlearnedModel]] = {name: [] for name in self.methods}
        self._never: dict[str, list[Floats]] = {name: [] for name in self.methods}
        self._ndcg: dict[str, list[float]] = {name: [] for name in self.methods}
        self._trained: list[Floats] = []
        self._retrained: list[Floats] = []
        self._weights = self.federation.federation.weights_after(setup.spec.train.rounds - 1)

    def add(self, trial: int) -> None:
        """Train once with the clients and once without them, and apply every method to both."""
        evaluation = self.federation.federation.evaluation
        left, never = self._request(trial, "left", self.clients), self._request(trial, "never", NOBODY)
        self._trained.append(left.history.trained)
        retrained = retrain(left)
        self._retrained.append(retrained.parameters)
        for name in self.methods:
            found = retrained if name == "retrain" else METHODS[name](left)
            self._left[name].append(found)
            self._ndcg[name].append(evaluation.ndcg(found.parameters, self._weights))
            self._never[name].append(METHODS[name](never).parameters)

    def _request(self, trial: int, world: str, leaving: Ints) -> UnlearningRequest:
        """A training of one world, and the request that follows it."""
        federation = self.federation
        streams = federation.streams(f"{world}/{trial}")
        return UnlearningRequest(
            federation=federation,
            history=federation.train(streams, NOBODY if leaving.size else self.clients),
            streams=streams,
            later=federation.streams(f"{world}/{trial}/later"),
            leaving=leaving,
            without=self.clients,
            settings=self.protocol,
        )

    def models(self, name: UnlearningMethod) -> tuple[Floats, Floats]:
        """The models of a method where the clients were never there, and where they left, (N, P) each."""
        return np.array(self._never[name]), np.array([one.parameters for one in self._left[name]])

    def finding(
        self, name: UnlearningMethod, resamples: QueryBootstrap, game: FunctionRecord
    ) -> UnlearningFinding:
        """What a method reaches and takes, with intervals over trainings."""
        found, retrained = self._left[name], np.array(self._retrained)
        whole = _lengths(np.array(self._trained) - retrained)
        distance = _lengths(np.array([one.parameters for one in found]) - retrained)
        apart = _lengths(retrained - np.roll(retrained, 1, axis=0))
        unit = whole.mean() or 1.0  # clients without any update: all distances are 0
        return UnlearningFinding(
            method=name,
            trainings=len(found),
            ndcg=resamples.share(np.array(self._ndcg[name])),
            distance=resamples.mean(distance),
            relative=resamples.mean(distance / unit),
            floor=float(apart.mean() / unit),
            client_rounds=_mean([one.client_rounds for one in found]),
            interactions=_mean([one.interactions for one in found]),
            stored_bytes=_mean([one.stored_bytes for one in found]),
            game=game,
        )


def _lengths(rows: Floats) -> Floats:
    return np.asarray(np.linalg.norm(rows, axis=1))


def _mean(values: Sequence[int]) -> float:
    return float(np.mean(values))
