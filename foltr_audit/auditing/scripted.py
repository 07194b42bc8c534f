"""Clients that click by script: the whole client of an experiment, from click log to message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np
from pydantic import ConfigDict

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import ClickModel, Defense, ModelLearner, RoundContext
from foltr_audit.core.plugins.answers import events_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.shown_lists import TIES, lists_in_score_order
from foltr_audit.privacy.events import ClickRandomization, GridRounding, NoiseAddition
from foltr_audit.rng import ClientStreams
from foltr_audit.simulation.client import ClientData, ClientSimulator
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.utils.arrays import Bools, Floats, Ints

_ROWS = 8192  # clients that are simulated at once, which bounds the memory


class ClickScript(ClickModel):
    """Given clicks, bool (C, B, k), for the clients of one cohort."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: ClassVar[str] = "scripted"

    clicks: object

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        """The given clicks of a local step, False at the padding."""
        return np.asarray(cast(Bools, self.clicks)[:, step] & (labels >= 0))


class NearestGridPoint(Defense):
    """Rounds to the nearest point of a grid, as a link with noise on a grid does before its noise."""

    name: ClassVar[str] = "nearest"

    step: float

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        """Models on the grid, float64 (C, P)."""
        return np.asarray(self.step * np.rint(models / self.step))


class LocalResult(NamedTuple):
    """The local models of scripted clients before they send.

    Attributes:
        models: local models after the step stage, float64 (C, P).
        shown: the lists that they were shown, int64 (C, B, k), padded with -1; None of clients without a log.
    """

    models: Floats
    shown: Ints | None


class GameClients:
    """Clients of a Setup that start at one global model and click by script.

    Their lists are in score order, or only the first list is and the others are sampled.
    """

    def __init__(self, setup: Setup, data: Dataset, parameters: Floats) -> None:
        """Nothing is played yet; `parameters` (P,) is the global model."""
        self.setup = setup
        self.data = data
        self.parameters = parameters

    @cached_property
    def quiet(self) -> DefenseChain:
        """The chain without its declared randomness: randomised clicks, and noise.

        A link that rounds to the nearest point of a grid before it adds noise still rounds. Links keep their
        place in the chain, which names their streams.
        """
        return DefenseChain(
            tuple(_without_randomness(link, self.blank) for link in self.setup.chain.defenses)
        )

    @cached_property
    def blank(self) -> RoundContext:
        """The first round without any client."""
        return self.context(0, np.empty(0, np.int64))

    @cached_property
    def _world(self) -> ClientData:
        """The data of all clients; clicks come from the script."""
        return ClientData.alike(self.data, ClickScript(clicks=None), self.setup.collection.largest_label)

    def context(
        self, round_: int, clients: Ints, under: str = "audit/", interactions: int = 1
    ) -> RoundContext:
        return self.setup.context(round_, clients, interactions, self.parameters, under)

    def play(
        self,
        queries: Ints,
        clicks: Bools,
        context: RoundContext,
        chain: DefenseChain | None = None,
        given: Ints | None = None,
        *,
        sampled: bool = False,
    ) -> LocalResult:
        """The local models of clients with queries (C, B) and clicks (C, B, k) after the step stage.

        By default in the experiment's own chain, with their own lists; `given` are those of the first
        interactions, int64 (C, b, k). With `sampled` the lists after the first are sampled.
        """
        if sampled and given is None:
            given = self.lists(queries[:, 0])[:, np.newaxis]
        models, shown = np.empty((queries.shape[0], self.parameters.size)), []
        rules = self.setup.rules(self._world.click_model, sampled=sampled)
        for first in range(0, queries.shape[0], _ROWS):
            rows = slice(first, first + _ROWS)
            scripted = ClickScript(clicks=clicks[rows])
            some = context.having(clients=context.clients[rows], counts=context.counts[rows])
            scripted_rules = replace(rules, click_model=scripted, chain=chain or rules.chain)
            lists = None if given is None else given[rows]
            local = ClientSimulator(scripted_rules, self._world).play(
                QueryAssignment.alike(queries[rows]), some, lists
            )
            models[rows] = local.models
            shown.append(local.interactions.shown)
        nobody = np.empty((0, *clicks.shape[1:]), dtype=np.int64)
        return LocalResult(models, np.concatenate([nobody, *shown]))

    def play_patterns(self, queries: Ints, clicks: Sequence[Bools], context: RoundContext) -> Floats:
        """The quiet local models of clients with one interaction each, float64 (C, P).

        Some of them ask each query (n,), and `clicks`, bool (2^w, k), has every click pattern of its list of
        w documents in the order of pattern numbers. The models are those of `play` up to rounding: steps of
        PDGD, whose pair weights are the same for all patterns of a list, take a small part of its time.
        """
        from foltr_audit.kernels.patterns import ClipRule, pattern_models
        from foltr_audit.kernels.pdgd import pair_weights

        learner, every = learner_as(self.setup.learner, ModelLearner), np.concatenate(clicks)
        step, sizes = learner.compiled_step, [len(patterns) for patterns in clicks]
        if step is None or self.quiet.links("click"):
            asked = np.repeat(queries, sizes)[:, np.newaxis]
            return self.play(asked, every[:, np.newaxis], context, self.quiet).models
        everybody, shown = self.parameters[np.newaxis], self.lists(queries)
        there, only_observed = shown >= 0, step.setting.pairs == "last-click+1"
        features = self.data.features[self.data.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)]
        rows = np.where(there[..., np.newaxis], self.setup.ranker.jacobian(everybody, features), 0.0)
        scores, starts = self.scores(everybody, queries)
        weights = pair_weights(scores, starts, shown, step.setting.normaliser == "candidates")
        models = pattern_models(
            np.repeat(everybody, queries.size, axis=0),
            step.learning_rate * rows,
            weights,
            there.sum(axis=1),
            only_observed,
            ClipRule(np.inf, 2, False),  # links act below, whatever they declare
        )
        stepped = np.concatenate([mine[:size] for mine, size in zip(models, sizes, strict=True)])
        acts: Bools = np.ones(len(stepped), dtype=np.bool_)
        if not learner.clip_without_pairs:
            documents = np.repeat(there, sizes, axis=0)
            pairs = observed_documents(every, documents, only_observed=only_observed)
            acts = np.asarray(pairs.any(axis=1))
        return self.quiet.on_step(stepped, acts, 0, context)[0]

    def messages(self, models: Floats, context: RoundContext) -> Floats:
        """The messages of local models (C, P): in the Spec's number format, but as float64.

        Messages that are encoded as integers are decoded again; masks are left out.
        """
        sent = self.setup.chain.on_message(models, context)
        return self.formatted(
            sent - self.parameters if self.setup.spec.trace.message == "update" else sent, context
        )

    def formatted(self, sent: Floats, context: RoundContext) -> Floats:
        """What clients send (C, P) in the Spec's number format, or encoded and decoded again, as float64."""
        encoding = self.setup.chain.encoding
        if encoding is None:
            return np.asarray(sent.astype(self.setup.spec.trace.dtype).astype(np.float64))
        integers = encoding.encode(sent, context.counts, context.clients, summed=False)
        return np.asarray(encoding.decode(integers) / np.maximum(context.counts, 1)[:, np.newaxis])

    def quiet_message(self, models: Floats, round_: int) -> Floats:
        """The messages (C, P) of local models, without noise and without rounding to a number format."""
        return self.quiet_messages(models, self.context(round_, np.arange(models.shape[0])))

    def quiet_messages(self, models: Floats, context: RoundContext) -> Floats:
        """The same for the clients of a context, whose round decides other random choices of links."""
        sent = self.quiet.on_message(models, context)
        return sent - self.parameters if self.setup.spec.trace.message == "update" else sent

    def scores(self, models: Floats, queries: Ints) -> tuple[Floats, Ints]:
        """Scores of each query's candidates (n,) under models (1 or n, P), flat, and `starts` (n + 1,)."""
        return self.setup.ranker.scores(np.ascontiguousarray(models), self.data, queries)

    def lists(self, queries: Ints, models: Floats | None = None) -> Ints:
        """The list of each query in score order in round 0, positions in it, int64 (n, k), padded with -1.

        By the global model, or by models (1 or n, P).
        """
        scores, starts = self.scores(self.parameters[np.newaxis] if models is None else models, queries)
        ties = self.context(0, queries).streams(TIES)
        return lists_in_score_order(scores, starts, self.data, queries, ties)


def is_random(link: Defense, context: RoundContext) -> bool:
    """Whether a link declares randomness, by its events and not by its class."""
    return any(isinstance(event, NoiseAddition | ClickRandomization) for event in events_of(link, context))


def _without_randomness(link: Defense, context: RoundContext) -> Defense:
    if not is_random(link, context):
        return link
    for event in events_of(link, context) if "message" in link.stages else ():
        if isinstance(event, GridRounding) and event.nearest:
            return NearestGridPoint(step=event.step)
    return make(Defense, NO_DEFENSE)
