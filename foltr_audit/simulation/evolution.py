"""Rounds in which clients send a seed and online metrics: FOLtR-ES.

Clients may draw queries and clicks from the generator that the seed of their message starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import declared_tables
from foltr_audit.core.plugins import MetricLearner, RoundContext
from foltr_audit.core.plugins.answers import array_of, arrays_of
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.records.round_context import WireMessages
from foltr_audit.core.shown_lists import TIES, tie_stream
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client import ClientData
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.simulation.training import (
    CohortMessages,
    check_finite,
    play_in_score_order,
    reported_clicks,
    to_format,
    unclipped,
)
from foltr_audit.utils.arrays import Bools, Floats, Ints, Words
from foltr_audit.utils.seed_generators import numpy_words

_FOR_A_LIST = 4 * LIST_LENGTH + 24
"""Words of a list: at most two numbers of two words for each document, and one or more for the query."""

_SPARE = 64
"""Further words of a client. A query takes one word more with a chance of one half at most."""


class SeededNumbers:
    """The numbers that NumPy's RandomState draws after the seeds of C clients, each at its own place.

    Source: Matsumoto & Nishimura 1998, "Mersenne twister", for the words; NumPy's documentation of
    RandomState promises that the numbers made of them stay as they are.
    """

    def __init__(self, seeds: NDArray[np.uint64], lists: int) -> None:
        """Draw the words of clients with seeds (C,) below 2^32, enough for so many lists each."""
        self.words: Words = numpy_words(seeds, _FOR_A_LIST * lists + _SPARE)
        self.place: Ints = np.zeros(seeds.size, dtype=np.int64)

    def next_words(self, rows: Ints) -> Words:
        """The next word of the clients in `rows` (n,)."""
        drawn = self.words[rows, self.place[rows]]
        self.place[rows] += 1
        return drawn

    def integers(self, rows: Ints, count: int) -> Ints:
        """As `randint(0, count)`, int64 (n,): the low bits of the first word that are below `count`."""
        drawn = np.zeros(rows.size, dtype=np.int64)
        missing = np.arange(rows.size) if count > 1 else np.empty(0, dtype=np.int64)
        mask = np.uint64((1 << (count - 1).bit_length()) - 1)
        while missing.size:
            drawn[missing] = (self.next_words(rows[missing]) & mask).astype(np.int64)
            missing = missing[drawn[missing] >= count]
        return drawn

    def uniform(self, rows: Ints) -> Floats:
        """As `uniform()`, float64 (n,): 27 bits of one word and 26 of the next one."""
        high = self.next_words(rows) >> np.uint64(5)
        low = self.next_words(rows) >> np.uint64(6)
        return (high.astype(np.float64) * 2.0**26 + low.astype(np.float64)) / 2.0**53


class SeededPlayer:
    """Plays clients by the rule of the published program of FOLtR-ES.

    A client draws, interaction after interaction, the number of a query, evenly; then, down the list, for
    each document whether it is clicked and, if so, whether the user stops. Lists are in NumPy's ascending
    order of the scores, turned around.

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4;
    `get_click_feedback` and `ranker_metrics` of the program that was published with it.
    """

    def __init__(self, setup: Setup, world: ClientData) -> None:
        """Check that clients are alike and click by declared tables.

        Raises:
            UsageError: they are not.
        """
        what = f"learner {setup.learner.name}: with as_published=true"
        if len(world.holdings) > 1 or len(world.models) > 1 or world.intents > 1:
            raise UsageError(
                f"{what} clients draw any query and click alike; expected no scenario or intents"
            )
        tables = declared_tables(world.click_model, world.largest_label)
        if tables is None:
            raise UsageError(f"{what} clients click by a cascade model, not {world.click_model.text}")
        self.ranker, self.world, self.tables = setup.ranker, world, tables

    def play(
        self, counts: Ints, numbers: SeededNumbers, models: Callable[[int], Floats]
    ) -> tuple[Ints, Ints, Bools]:
        """Queries (C, B), padded with -1, lists (C, B, k) and clicks (C, B, k).

        Args:
            counts: interactions of each client, int64 (C,).
            numbers: of the clients; they stand behind the last number that a client drew afterwards.
            models: the models of all clients in a step, (C, P).
        """
        from foltr_audit.kernels.numpy_order import reversed_lists

        C, B = counts.size, int(counts.max(initial=0))
        every = np.full((C, B), -1)
        lists, clicks = np.full((C, B, LIST_LENGTH), -1), np.zeros((C, B, LIST_LENGTH), dtype=np.bool_)
        for step in range(B):
            rows = np.flatnonzero(step < counts)
            queries = numbers.integers(rows, self.world.data.n_queries)
            scores, starts = self.ranker.scores(models(step)[rows], self.world.data, queries)
            shown = reversed_lists(scores, starts, LIST_LENGTH)
            every[rows, step], lists[rows, step] = queries, shown
            clicks[rows, step] = self._clicks(numbers, rows, queries, shown)
        return every, lists, clicks

    def _clicks(self, numbers: SeededNumbers, rows: Ints, queries: Ints, shown: Ints) -> Bools:
        """Clicks (n, k) on the lists (n, k) of the clients in `rows`."""
        click, stop = self.tables
        grades = self.world.clicked_grades(queries, np.zeros_like(queries), shown)
        clicks = np.zeros(shown.shape, dtype=np.bool_)
        reading = np.arange(rows.size)
        for rank in range(shown.shape[1]):
            reading = reading[shown[reading, rank] >= 0]
            clicks[reading, rank] = numbers.uniform(rows[reading]) < click[grades[reading, rank]]
            clicked = reading[clicks[reading, rank]]
            stops = numbers.uniform(rows[clicked]) < stop[grades[clicked, rank]]
            reading = np.setdiff1d(reading, clicked[stops], assume_unique=True)
        return clicks


class MetricSenders:
    """Clients that show lists of perturbed models, and send the seed and the metrics of the clicks.

    The seed reveals how the model was perturbed and nothing else: queries and clicks have their own streams,
    unless the learner draws them from the seed too.
    """

    def __init__(self, setup: Setup, world: ClientData) -> None:
        """Store the setup; kernels are compiled in the first round.

        Raises:
            UsageError: the seed drives queries and clicks, and clients are not alike.
        """
        self.setup = setup
        self.learner = learner_as(setup.learner, MetricLearner)
        self.world = world
        self.seeded = SeededPlayer(setup, world) if self.learner.draws_from_seed else None

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Play queries (C, B) with perturbed models; each client sends its mean metrics (C, V)."""
        learner, chain = self.learner, self.setup.chain
        values = array_of(f"learner {learner.name}: values", learner.values, (np.size(learner.values),))
        seeds, counts = self._seeds(context), asked.counts
        queries, shown, clicks = self._play(asked, context, seeds)
        learnt = reported_clicks(chain, shown, clicks, context)
        outcomes = _outcomes(learner, clicks)
        means = sent = self._means(outcomes, counts)
        if learnt is not clicks or chain.links("metric"):
            reported = outcomes.copy() if learnt is clicks else _outcomes(learner, learnt)
            for step in range(queries.shape[1]):
                reported[:, step] = chain.on_metric(reported[:, step], values, step, context)
            sent = self._means(reported, counts)
        messages = to_format(sent, self.setup.spec.trace.dtype, context.round)
        return CohortMessages(
            wired=WireMessages(messages=messages, survivors=np.ones(seeds.size, dtype=np.bool_)),
            updates=means,
            interactions=unclipped(queries, shown, clicks, learnt),
            seeds=seeds,
        )

    def _seeds(self, context: RoundContext) -> NDArray[np.uint64]:
        """A seed of 64 bits for each client, or of 32 where it starts NumPy's generator; uint64 (C,)."""
        # One uniform number has 52 random bits, too few for a seed: two give 32 each.
        halves = (context.streams("es/seed").uniform(2) * 2.0**32).astype(np.uint64)
        if self.seeded is not None:
            return halves[:, 0]
        return np.asarray((halves[:, 0] << np.uint64(32)) | halves[:, 1])

    def _means(self, outcomes: Ints, counts: Ints) -> Floats:
        """Mean metrics (C, V) of the halves of each client's first `counts` outcomes (C, B), or of all; or 0.

        Clients with equal counts are taken together: a mean of a padded row would sum in another order.
        """
        means = np.zeros((counts.size, 2 if self.learner.antithetic else 1))
        every = np.unique(counts).tolist()
        for B in every:
            rows = slice(None) if len(every) == 1 else counts == B  # which makes no copies
            values = self.learner.values[outcomes[rows]]
            cuts = [(0, (B + 1) // 2), ((B + 1) // 2, B)] if self.learner.antithetic else [(0, B)]
            means[rows] = np.stack([values[:, a:b].sum(axis=1) / max(1, b - a) for a, b in cuts], axis=1)
        return means

    def _play(
        self, asked: QueryAssignment, context: RoundContext, seeds: NDArray[np.uint64]
    ) -> tuple[Ints, Ints, Bools]:
        """Queries (C, B), lists (C, B, k) and clicks (C, B, k)."""
        if self.seeded is not None:
            numbers = SeededNumbers(seeds, int(asked.counts.max(initial=0)))
            return self.seeded.play(asked.counts, numbers, self._models(asked, context, seeds))
        world, data = self.world, self.world.data
        tables = declared_tables(world.click_model, world.largest_label)
        if self.setup.ranker.hidden or tables is None:
            models = self._models(asked, context, seeds)
            played = play_in_score_order(self.setup.ranker, world, asked, models, context)
            return asked.queries, *played
        from foltr_audit.kernels.evolution import EvolutionQueries, play_perturbed

        streams, ties = context.streams(world.click_model.purpose), tie_stream(data, context.streams(TIES))
        key = np.uint64(streams.key)
        shown, clicks = play_perturbed(
            EvolutionQueries(
                *(data.features, world.grades, data.offsets, *tables),
                *(context.round, streams.purpose_code, key, ties),
            ),
            np.ascontiguousarray(asked.queries),
            world.lifts(asked.ways),
            context.clients,
            context.parameters,
            seeds,
            self.learner.sigma,
            self.learner.antithetic,
        )
        return asked.queries, shown, clicks

    def _models(
        self, asked: QueryAssignment, context: RoundContext, seeds: NDArray[np.uint64]
    ) -> Callable[[int], Floats]:
        """The models (C, P) that rank in a step: the perturbed ones, or later the mirrored ones."""
        who, size = f"learner {self.learner.name}: perturbations", context.parameters.size
        perturbed: Floats = array_of(who, self.learner.perturbations(seeds, size), (seeds.size, size))
        half = (asked.counts[:, np.newaxis] + 1) // 2

        def models(step: int) -> Floats:
            mirrored = self.learner.antithetic & (step >= half)
            return np.where(mirrored, context.parameters - perturbed, context.parameters + perturbed)

        return models


def _outcomes(learner: MetricLearner, clicks: Bools) -> Ints:
    """The index of the value that each list's clicks give."""
    found = learner.outcomes(clicks)
    return array_of(f"learner {learner.name}: outcomes", found, clicks.shape[:-1], "whole numbers")


class EvolutionServer:
    """A server that ascends the gradient estimated from seeds and metrics."""

    def __init__(self, setup: Setup, world: ClientData) -> None:
        """Prepare the rounds.

        Raises:
            UsageError: a client with fewer interactions at the mirrored model than at the other.
        """
        self.learner = learner_as(setup.learner, MetricLearner)
        self.senders = MetricSenders(setup, world)
        odd = [size for size in setup.clients.sizes if size % 2] if self.learner.antithetic else []
        if odd:
            raise UsageError(
                f"learner {self.learner.name}: a client with {odd[0]} interactions; "
                "expected even numbers, or antithetic=false"
            )

    def first(self, parameters: Floats) -> GlobalModel:
        """The first model (P,), with the optimiser's first state."""
        return GlobalModel(parameters, self._first_state(parameters.size))

    def _first_state(self, parameters: int) -> Floats:
        found = self.learner.first_state(parameters)
        return array_of(f"learner {self.learner.name}: first_state", found, (np.size(found),))

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """See `TrainingServer.play`: one step of the optimiser."""
        sent = self.senders.send(asked, context)
        state = self._first_state(before.parameters.size) if before.state is None else before.state
        seeds, messages = cast("NDArray[np.uint64]", sent.seeds), sent.messages.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            found = self.learner.update(before.parameters, state, seeds, messages)
            parameters, state = arrays_of(
                f"learner {self.learner.name}: update", found, (before.parameters.shape, state.shape)
            )
        return sent, GlobalModel(check_finite(parameters, context.round), state)
