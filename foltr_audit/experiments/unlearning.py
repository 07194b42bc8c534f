"""Ways to forget clients that left, and what a model keeps of them.

The experiment: many trainings that clients leave, as many that they were never in, and a game between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.auditing.function_audit import audit_outputs
from foltr_audit.auditing.function_outputs import MOST_NUMBERS, FunctionOutputs
from foltr_audit.core.plugins import RoundContext, WireMessages
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.records.population import ONE_GROUP, QueryAssignment
from foltr_audit.core.results import Estimate, FunctionRecord
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import FunctionAuditSpec
from foltr_audit.core.settings.defaults import MODEL_ATTACKS
from foltr_audit.core.settings.unlearning import UnlearningMethod, UnlearningSpec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError
from foltr_audit.experiments.membership import QUERY_PURPOSES
from foltr_audit.experiments.stages import first_model, judge_attacks
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import FedAvgServer
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import SILENT, Progress


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRound:
    """One round as the server can store it: the context of its clients (C,), and their messages, (C, P)."""

    context: RoundContext
    wired: WireMessages

    @property
    def updates(self) -> Floats:
        """The change of the global model in each message, float64 (C, P)."""
        sent = self.wired.messages.astype(np.float64)
        return sent if self.context.message == "update" else sent - self.context.parameters

    def without(self, clients: Ints) -> StoredRound:
        """The same round without the messages of some clients."""
        rows, wired = np.flatnonzero(~np.isin(self.context.clients, clients)), self.wired
        kept = replace(wired, messages=wired.messages[rows], survivors=wired.survivors[rows])
        return StoredRound(context=self.context.at(rows), wired=kept)


@dataclass(frozen=True, kw_only=True, eq=False)
class UpdateHistory:
    """All rounds of a training in order, its first and its trained model, float64 (P,)."""

    start: Floats
    rounds: tuple[StoredRound, ...]
    trained: Floats
    dtype: str

    def stored_bytes(self, rounds: slice) -> int:
        """Bytes of the messages of some rounds, and of the global model before each of them."""
        size = np.dtype(self.dtype).itemsize * self.start.size
        return sum(size * (one.context.clients.size + 1) for one in self.rounds[rounds])


NOBODY = np.empty(0, dtype=np.int64)
"""No client."""


class ReducedFederation:
    """The rounds of a Spec without some of its clients.

    A cohort is drawn from all clients, and those that left are taken out of it. So with the same random
    numbers the others take part in the same rounds whoever left.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.federation = Federation(setup)
        self.start = first_model(setup)
        if not isinstance(self.federation.training, FedAvgServer):
            raise UsageError(f"learner {setup.learner.name}: unlearning needs messages that are models")
        self.server = self.federation.training
        self.most = setup.clients.interactions
        self._everybody = np.arange(setup.spec.population.clients)

    def streams(self, branch: str) -> Streams:
        """Random numbers of their own; what clients search for is the same in all branches."""
        spec = self.setup.spec
        return Streams(spec.seed, spec.repetition, branch=f"unlearning/{branch}", shared=QUERY_PURPOSES)

    def context(self, round_: int, clients: Ints, parameters: Floats, streams: Streams) -> RoundContext:
        """The context of clients in a round that starts from a model (P,)."""
        return self.setup.context(round_, clients, self.most, parameters).having(source=streams)

    def asked(self, context: RoundContext, first: int | None = None) -> tuple[RoundContext, QueryAssignment]:
        """What clients ask, at most their `first` interactions, and the context with the number of these."""
        asked = self.federation.clientele.ask(context)
        if first is not None:
            queries = np.where(np.arange(asked.queries.shape[1]) < first, asked.queries, -1)
            asked = QueryAssignment(queries, asked.intents, asked.ways)
        return context.having(counts=asked.counts), asked

    def train(self, streams: Streams, without: Ints = NOBODY) -> UpdateHistory:
        """Train the model of the Spec from the first one."""
        rounds, trained = self.play(streams, without, self.start, range(self.setup.spec.train.rounds))
        return UpdateHistory(
            start=self.start, rounds=rounds, trained=trained, dtype=self.setup.spec.trace.dtype
        )

    def play(
        self, streams: Streams, without: Ints, model: Floats, numbers: Iterable[int]
    ) -> tuple[tuple[StoredRound, ...], Floats]:
        """Rounds with these numbers from a model (P,), and the model after them."""
        cohorts = self.federation.setup.cohorts(self._everybody, streams)
        state, played = self.server.first(model), []
        for number in numbers:
            cohort = cohorts.cohort(number)
            here = self.context(number, cohort[~np.isin(cohort, without)], state.parameters, streams)
            here, asked = self.asked(here)
            wired = WireMessages(messages=np.empty((0, model.size)), survivors=np.empty(0, dtype=np.bool_))
            if here.clients.size:  # else everybody who would have played has left
                sent, state = self.server.play(asked, here, state)
                wired = sent.wired
            played.append(StoredRound(context=here, wired=wired))
        return tuple(played), state.parameters

    def aggregated(self, stored: StoredRound) -> Floats:
        """The change of the global model (P,) that the server makes of a round's messages."""
        before = GlobalModel(stored.context.parameters)
        after = self.server.aggregate(stored.wired, stored.context, before)
        return after.parameters - before.parameters

    def reversed_steps(self, round_: int, clients: Ints, model: Floats, streams: Streams) -> Floats:
        """The local steps of clients in a round from a model (P,), without any defense, reversed: (C, P)."""
        context, asked = self.asked(self.context(round_, clients, model, streams))
        return -self.server.senders.clients.play(asked, context).updates


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearningRequest:
    """A training after which clients leave; `later` are the random numbers of rounds after it.

    The ids of those that leave are none where these clients never took part. Those `without` which it goes on
    take part in no further round.
    """

    federation: ReducedFederation
    history: UpdateHistory
    streams: Streams
    later: Streams
    leaving: Ints
    without: Ints
    settings: UnlearningSpec


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlearnedModel:
    """What a method made of a request, float64 (P,), and what it took.

    That is how often a client computed a message, the interactions behind these messages, and the size of
    what the server must have stored of the training.
    """

    parameters: Floats
    client_rounds: int = 0
    interactions: int = 0
    stored_bytes: int = 0


def none(request: UnlearningRequest) -> UnlearnedModel:
    return UnlearnedModel(parameters=request.history.trained)


def retrain(request: UnlearningRequest) -> UnlearnedModel:
    """Train again from the first model without the clients, with the random numbers of the training.

    This is exact unlearning: the model has the law of one that never saw them.
    """
    found = request.federation.train(request.streams, request.without)
    return _computed(found.rounds, found.trained)


def fine_tune(request: UnlearningRequest) -> UnlearnedModel:
    """More rounds without the clients, from the trained model."""
    return _tuned(request, request.history.trained)


def fed_remove(request: UnlearningRequest) -> UnlearnedModel:
    """Add up the stored updates of the others, without any calibration.

    In each round the server aggregates the stored messages again without those of the clients that left.
    The updates of the others were computed at models that the clients had changed, and stay as they are.

    Source: the baseline FedAccum of Liu, Ma, Yang, Wang & Liu 2021, "FedEraser: enabling efficient
    client-level data removal from federated learning models", section IV.
    """
    history, federation = request.history, request.federation
    model = history.start
    for one in history.rounds:
        model = model + federation.aggregated(one.without(request.leaving))
    return UnlearnedModel(parameters=model, stored_bytes=history.stored_bytes(slice(None)))


def fed_eraser(request: UnlearningRequest) -> UnlearnedModel:
    """Calibrate the stored updates of every K-th round: new steps give direction, the stored update length.

    The other clients of each stored round take fewer local steps from the model that is being rebuilt. The
    direction of the new update and the L2 norm of the stored one make the update that is aggregated. A
    client whose new steps do not move the model moves it by nothing. The first round is not calibrated,
    since its clients started from a model that nobody had changed.

    Source: Liu, Ma, Yang, Wang & Liu 2021, "FedEraser: enabling efficient client-level data removal from
    federated learning models", section III.
    """
    history, federation, settings = request.history, request.federation, request.settings
    every = settings.calibrate_every
    first = settings.calibration_interactions or max(1, federation.most // 2)
    model, client_rounds, interactions = history.start, 0, 0
    for number, stored in enumerate(history.rounds[::every]):
        one = stored.without(request.leaving)
        if number and one.context.clients.size:
            one, asked = _calibrated(request, one, model, first)
            client_rounds += one.context.clients.size
            interactions += asked
        model = model + federation.aggregated(one)
    return UnlearnedModel(
        parameters=model,
        client_rounds=client_rounds,
        interactions=interactions,
        stored_bytes=history.stored_bytes(slice(None, None, every)),
    )


def gradient_ascent(request: UnlearningRequest) -> UnlearnedModel:
    """The clients take reversed steps inside a ball around a reference model; rounds without them follow.

    The reference is what the last round gives without the messages of these clients. After each round of
    reversed steps the model is projected onto the L2 ball around it. Its radius is a share of the distance
    from the first model to the reference, where the source takes that from random models.

    Source: Halimi, Kadhe, Rawat & Baracaldo 2022, "Federated unlearning: how to efficiently erase a client in
    FL?", section 3.
    """
    tuned = _tuned(request, ascended(request))
    ascents = request.settings.ascent_rounds * request.leaving.size
    return replace(
        tuned,
        client_rounds=tuned.client_rounds + ascents,
        interactions=tuned.interactions + ascents * request.federation.most,
        stored_bytes=request.history.stored_bytes(slice(-1, None)),
    )


def ascended(request: UnlearningRequest) -> Floats:
    """The model (P,) of gradient ascent before the rounds that follow it."""
    history, settings = request.history, request.settings
    if not request.leaving.size:
        return history.trained
    last = history.rounds[-1]
    reference = last.context.parameters + request.federation.aggregated(last.without(request.leaving))
    radius = settings.ball * float(np.linalg.norm(reference - history.start))
    model, rounds = reference, len(history.rounds)
    for number in range(settings.ascent_rounds):
        steps = request.federation.reversed_steps(number % rounds, request.leaving, model, request.later)
        model = projected(model + steps.mean(axis=0), reference, radius)
    return model


def projected(model: Floats, centre: Floats, radius: float) -> Floats:
    """The point of an L2 ball that is nearest to a model (P,)."""
    away = model - centre
    length = float(np.linalg.norm(away))
    return model if length <= radius else np.asarray(centre + away * (radius / length))


def _tuned(request: UnlearningRequest, model: Floats) -> UnlearnedModel:
    """Rounds without the clients from a model; they ask again what they asked in the last rounds."""
    rounds, count = len(request.history.rounds), request.settings.fine_tune_rounds
    numbers = [(rounds - count + number) % rounds for number in range(count)]
    return _computed(*request.federation.play(request.later, request.without, model, numbers))


def _computed(rounds: tuple[StoredRound, ...], model: Floats) -> UnlearnedModel:
    """A model that was trained in some rounds."""
    return UnlearnedModel(
        parameters=model,
        client_rounds=sum(one.context.clients.size for one in rounds),
        interactions=sum(int(one.context.counts.sum()) for one in rounds),
    )


def _calibrated(
    request: UnlearningRequest, stored: StoredRound, model: Floats, first: int
) -> tuple[StoredRound, int]:
    """A stored round at a model (P,) with calibrated updates, and the interactions that this took."""
    federation, there = request.federation, stored.context
    context = federation.context(there.round, there.clients, model, request.later)
    context, asked = federation.asked(context, first)
    sent = federation.server.senders.send(asked, context)
    fresh = StoredRound(context=context, wired=sent.wired)
    new, lengths = fresh.updates, np.linalg.norm(stored.updates, axis=1)
    sizes = np.linalg.norm(new, axis=1)
    scale = np.divide(lengths, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    updates = new * scale[:, np.newaxis]
    messages = updates if there.message == "update" else updates + model
    # The weights of the average are those of the stored messages.
    kept = replace(there, parameters=model), replace(stored.wired, messages=messages)
    return StoredRound(context=kept[0], wired=kept[1]), int(context.counts.sum())


METHODS: dict[UnlearningMethod, Callable[[UnlearningRequest], UnlearnedModel]] = {
    "none": none,
    "retrain": retrain,
    "fed-eraser": fed_eraser,
    "fed-remove": fed_remove,
    "fine-tune": fine_tune,
    "gradient-ascent": gradient_ascent,
}
"""Every method by its name."""


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

    The history of a `recording`, a training of this Spec, is attacked. Every method answers to trainings that
    the clients left, and to as many that they were never in.
    """
    protocol = setup.spec.unlearning
    if protocol is None:
        return UnlearningResult()
    federation, clients = ReducedFederation(setup), np.array(protocol.clients, dtype=np.int64)
    methods = protocol.chosen(hidden=setup.chain.encoding is not None)
    audit = game_settings(protocol, setup.spec.seed)
    numbers = 2 * audit.calls * len(methods) * setup.ranker.n_parameters
    if numbers > MOST_NUMBERS:
        raise UsageError(
            f"--trials: {audit.trials}; {len(methods)} methods with {setup.ranker.n_parameters} parameters "
            f"make {numbers:,} numbers; expected {MOST_NUMBERS:,} at most: fewer trials or methods"
        )

    def request(world: str, leaving: Ints) -> UnlearningRequest:
        streams = federation.streams(world)
        return UnlearningRequest(
            federation=federation,
            history=federation.train(streams, NOBODY if leaving.size else clients),
            streams=streams,
            later=federation.streams(f"{world}/later"),
            leaving=leaving,
            without=clients,
            settings=protocol,
        )

    leaks = history_leakage(setup, recording, progress)
    left: dict[UnlearningMethod, list[UnlearnedModel]] = {name: [] for name in methods}
    never: dict[UnlearningMethod, list[Floats]] = {name: [] for name in methods}
    trained, retrained = [], []
    with progress.task("train and unlearn", audit.calls) as tick:
        for trial in range(audit.calls):
            gone, absent = request(f"left/{trial}", clients), request(f"never/{trial}", NOBODY)
            exact = retrain(gone)
            trained.append(gone.history.trained)
            retrained.append(exact.parameters)
            for name in methods:
                left[name].append(exact if name == "retrain" else METHODS[name](gone))
                never[name].append(METHODS[name](absent).parameters)
            tick()
    evaluation = federation.federation.evaluation
    weights = federation.federation.weights_after(setup.spec.train.rounds - 1)
    resamples = QueryBootstrap(np.arange(audit.calls).astype(np.str_), setup.streams)
    whole, apart = (
        np.linalg.norm(np.array(models) - np.array(retrained), axis=1)
        for models in (trained, np.roll(retrained, 1, axis=0))
    )
    unit = float(whole.mean()) or 1.0  # clients without any update: all distances are 0
    findings = []
    for name, found in left.items():
        models = np.array([one.parameters for one in found])
        distance = np.linalg.norm(models - np.array(retrained), axis=1)
        took = np.array([(one.client_rounds, one.interactions, one.stored_bytes) for one in found])
        client_rounds, interactions, stored_bytes = took.mean(axis=0).tolist()
        findings.append(
            UnlearningFinding(
                method=name,
                trainings=len(found),
                ndcg=resamples.share(np.array([evaluation.ndcg(model, weights) for model in models])),
                distance=resamples.mean(distance),
                relative=resamples.mean(distance / unit),
                floor=float(apart.mean() / unit),
                client_rounds=client_rounds,
                interactions=interactions,
                stored_bytes=stored_bytes,
                game=play_game(np.array(never[name]), models, audit),
            )
        )
    return UnlearningResult(findings=tuple(findings), leaks=leaks)
