"""Clients that draw queries and clicks from the generator that the seed of their message starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import Tables, declared_tables
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.errors import UsageError
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.setup import Setup
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
        self.ranker: Ranker = setup.ranker
        self.world = world
        self.tables: Tables = tables

    def play(
        self, counts: Ints, seeds: NDArray[np.uint64], models: Callable[[int], Floats]
    ) -> tuple[Ints, Ints, Bools]:
        """Queries (C, B), padded with -1, lists (C, B, k) and clicks (C, B, k).

        Args:
            counts: interactions of each client, int64 (C,).
            seeds: uint64 (C,), below 2^32.
            models: the models of all clients in a step, (C, P).
        """
        return self.play_numbers(counts, SeededNumbers(seeds, int(counts.max(initial=0))), models)

    def play_numbers(
        self, counts: Ints, numbers: SeededNumbers, models: Callable[[int], Floats]
    ) -> tuple[Ints, Ints, Bools]:
        """The same with generators, which stand behind the last number that a client drew afterwards."""
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
