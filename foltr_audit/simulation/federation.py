"""Federated rounds: a cohort is drawn, learns locally, defends, sends; the server averages and evaluates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Learner, RoundContext
from foltr_audit.core.plugins.answers import column_name
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.core.records.interactions import GlobalModel, RoundRecord, RoundTruth
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.train import TraceSpec
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client import ClientData
from foltr_audit.simulation.evaluation import OfflineMetrics, OnlineMetrics, in_a_row
from foltr_audit.simulation.evolution import EvolutionServer, MetricSenders
from foltr_audit.simulation.intent_metrics import PLAYED
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import (
    CentralServer,
    ClickSenders,
    CohortMessages,
    FedAvgServer,
    ModelSenders,
    Senders,
    TrainingServer,
)
from foltr_audit.utils.arrays import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundResult:
    """The result of one round; records are made from it only where they are stored.

    Attributes:
        context: the context that clients and defenses got.
        sent: what the cohort sent.
        after: the global model afterwards.
        metrics: utility of the round by name; empty where it was not evaluated.
        asked: the queries of the clients.
        world: the data that they searched.
        embeds: whether the feature rows on which clients train are stored with the shown lists.
    """

    context: RoundContext
    sent: CohortMessages
    after: GlobalModel
    metrics: dict[str, float]
    asked: QueryAssignment
    world: ClientData
    embeds: bool

    @property
    def aggregate(self) -> Floats:
        return self.after.parameters

    def recorded(self, *, messages: bool = True) -> tuple[RoundRecord, RoundTruth]:
        """The observed record and the truth; without `messages` the global models and the utility only."""
        kept = slice(None if messages else 0)
        context, sent, done = self.context, self.sent, self.sent.interactions
        there = done.queries[kept] >= 0
        slot, step = np.nonzero(there)
        asked, shown = in_a_row(done.queries[kept], there), in_a_row(done.shown[kept], there)
        data, origin = self.world.data, self.world.origin
        record = RoundRecord(
            round=context.round,
            parameters=context.parameters,
            aggregate=self.aggregate,
            shares=context.shares,
            survivors=sent.wired.survivors[kept],
            counts=context.counts[kept],
            messages=sent.messages[kept],
            slot=slot,
            step=step,
            part=origin.part[asked],
            query=origin.query[asked],
            shown=origin.shown(data, asked, shown),
            features=self.world.trained_features(asked, shown, step) if self.embeds else None,
            total=sent.wired.total,
            aborted=sent.wired.aborted,
            seeds=None if sent.seeds is None else sent.seeds[kept],
            state=self.after.state,
            facts={} if sent.broadcast is None else sent.broadcast.facts(sent.wired),
        )
        truth = RoundTruth(
            clients=context.clients[kept],
            updates=sent.updates[kept],
            clicks=in_a_row(done.clicks[kept], there),
            clipped=in_a_row(done.clipped[kept], there),
            metrics=self.metrics,
            intents=in_a_row(self.asked.intents[kept], there) if self.world.intents > 1 else None,
        )
        return record, truth


_BITS = {"float32": 32, "float64": 64}
_SEED = 64


def bytes_per_client(
    learner: Learner,
    chain: DefenseChain,
    parameters: int,
    trace: TraceSpec,
    rounds: Sequence[Mapping[str, float]],
) -> float | None:
    """Mean bytes of a client's message in a round; None for a learner whose clients send their clicks.

    A model or update is P plain numbers, unless the last defense of the message stage packs them. With secure
    aggregation a message is all that a client sends: keys, shares and masked numbers. A message of an
    evolution strategy is the seed of its perturbation and two mean metrics.

    Args:
        learner: what the clients learn with.
        chain: their defenses.
        parameters: number of parameters of a model, P.
        trace: the number format of messages.
        rounds: metrics of the rounds; a wire defense stores its `bytes` there.
    """
    number = _BITS[trace.dtype]
    if learner.sends == "clicks":
        return None
    if learner.sends == "metrics":
        return (_SEED + 2 * number) / 8
    sent = [row["bytes"] for row in rounds if "bytes" in row]
    if sent:
        return float(np.mean(sent))
    bits = float(parameters * number)
    for defense in chain.links("message"):
        bits = defense.message_bits(parameters, number)
    return float(np.ceil(bits / 8))


TRAIN = 0
"""Index of the training split among the parts of a collection."""


def make_server(setup: Setup, world: ClientData) -> TrainingServer:
    """The server of a setup's learner on some data.

    Raises:
        UsageError: it cannot learn on this data.
    """
    if setup.learner.sends == "models":
        return FedAvgServer(setup, world)
    return (EvolutionServer if setup.learner.sends == "metrics" else CentralServer)(setup, world)


def make_senders(setup: Setup, world: ClientData, *, sampled: bool = False, alone: bool = True) -> Senders:
    """Fresh clients of a setup's learner, each on its own or together, with deterministic or sampled lists.

    Raises:
        UsageError: its lists are never sampled.
    """
    if setup.learner.sends == "models":
        return ModelSenders(setup, world, sampled=sampled, fresh=True, alone=alone)
    if sampled:
        raise UsageError(
            f"--lists sampled: learner {setup.learner.name} samples no lists of its fresh clients"
        )
    return MetricSenders(setup, world) if setup.learner.sends == "metrics" else ClickSenders(setup, world)


class Federation:
    """The rounds of one experiment.

    Example:
        `for played in Federation(setup).rounds(start): print(played.metrics["offline_ndcg@10"])`
    """

    def __init__(self, setup: Setup, *, sums_only: bool = False) -> None:
        """Prepare the clients and the server; rounds run as `rounds` is iterated.

        With `sums_only` messages that the wire stage encodes are not kept: nobody looks at them.
        """
        self.setup = setup
        self.sums_only = sums_only
        train = setup.collection.train
        self.clientele = setup.served(
            setup.clients.traffic(
                train,
                QueryOrigin.of_part(TRAIN, train),
                setup.spec.train.click_model,
                own_clicks=True,
                malicious=setup.malicious,
            )
        )
        self.training = make_server(setup, self.clientele.world)
        self.online = OnlineMetrics(
            world=self.clientele.world,
            population=setup.clients.population,
            no_relevant=setup.spec.train.online_no_relevant,
        )
        self.evaluation = OfflineMetrics(setup.collection, setup.ranker, setup.clients, setup.spec.train)

    def rounds(self, start: Floats | GlobalModel, first: int = 0) -> Iterator[RoundResult]:
        """Play rounds first .. T-1 from a first model (P,), or from the server's state."""
        for round_ in range(first, self.setup.spec.train.rounds):
            played = self.play(start, round_)
            yield played
            start = played.after

    def play(self, start: Floats | GlobalModel, round_: int) -> RoundResult:
        """Play one round from a first model (P,), or from the server's state.

        Raises:
            DataError: the model is no longer finite.
            PluginError: a defense names one of its costs like another metric of rounds.
        """
        before = start if isinstance(start, GlobalModel) else self.training.first(start)
        setup, train, cohort = self.setup, self.setup.spec.train, self.setup.cohort(round_)
        context = setup.context(round_, cohort, setup.clients.interactions, before.parameters)
        if self.sums_only:
            context = context.having(sums_only=True)
        done = self.exchange(context, before)
        metrics = self.online.compute(done.sent.interactions, done.asked, cohort)
        if (round_ + 1) % train.evaluate_every == 0 or round_ + 1 == train.rounds:
            metrics |= self.evaluation.metrics(done.aggregate, self.weights_after(round_))
        else:
            metrics |= self.evaluation.missing()
        costs, more = done.sent.wired.costs, {}
        if setup.malicious is not None:
            more = setup.malicious.promoted_rank(setup.collection.train, setup.ranker, done.aggregate)
        if not setup.clients.alike_in_number:
            more[PLAYED] = float(done.asked.counts.sum())
        for name in costs:
            column_name(f"defense {'+'.join(setup.spec.defense)}: cost", name, {*metrics, *more})
        return replace(done, metrics={**metrics, **costs, **more})

    def exchange(self, context: RoundContext, before: GlobalModel) -> RoundResult:
        """Let the clients of a context ask, learn and send; nothing is evaluated.

        Raises:
            DataError: the model is no longer finite.
        """
        asked = self.clientele.ask(context)
        context = context.having(counts=asked.counts)  # known only once the clients have asked
        sent, after = self.training.play(asked, context, before)
        return RoundResult(
            context=context,
            sent=sent,
            after=after,
            metrics={},
            asked=asked,
            world=self.clientele.world,
            embeds=self.setup.embeds_features,
        )

    def weights_after(self, round_: int) -> Floats:
        """How likely each intent (I,) is at the last interaction of a round."""
        played = (round_ + 1) * self.setup.clients.interactions * self.setup.spec.population.cohort_size
        return self.clientele.weights(played - 1)
