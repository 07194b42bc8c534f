"""What the seed of a FOLtR-ES message reveals where it also drives the client's queries and clicks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.seeded_clients import (
    SEED_BITS,
    SeededClients,
    following_words,
    is_seed,
    why_not_seeded,
)
from foltr_audit.plugins import Attack, Inference, LinkAttack, View
from foltr_audit.utils.arrays import Floats, Ints

_WORD = float(1 << SEED_BITS)


class ESSeed(Attack):
    """Replays the client from the seed it sent: its queries and all its clicks.

    The published program of FOLtR-ES seeds the client's own generator with the seed of the message. So
    queries and clicks follow from the seed, the grades and the click model; the metric is not looked at, and
    its randomisation protects nothing. A list is read if it answers the query that the seed draws; the lists
    after one that does not are left unread, with scores of 0.

    Sees: the seed, the shown lists, all candidates, grades, the click model; the order, or else the global
    model and sigma, from which it follows. Expects the fact `perturbation=numpy-randomstate`.

    Source: Kharitonov 2019, "Federated online learning to rank with evolution strategies", section 4, for
    the message; `get_click_feedback` of the program that was published with it.
    """

    name: ClassVar[str] = "es-seed"
    strongest: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"es"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "candidates", "relevance", "click_model", "belief"})

    def why_not(self, view: View) -> str | None:
        """Also refuses other generators, and an order that the seed does not determine."""
        known = view.knowledge
        reason = super().why_not(view) or why_not_seeded(view)
        if reason is None and not known.order and not (known.has("sigma") and known.lists == "deterministic"):
            return (
                "the observer does not know: order, nor sigma and deterministic lists, from which it follows"
            )
        return reason

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is 1 for a replayed click, else 0."""
        clicks, _ = SeededClients(view).replayed()
        return Inference(scores=clicks.astype(np.float64), guess=clicks)


class ESSeedQuery(Attack):
    """Names the query that the seed of a message draws, by the same generator as `es-seed`.

    All lists have the same probability if the seed draws none of their queries.

    Sees: the seed, and the queries in the order of the data set. Expects the fact
    `perturbation=numpy-randomstate`.

    Source: as for `es-seed`.
    """

    name: ClassVar[str] = "es-seed-query"
    asks: ClassVar[str | type] = "query"
    reads: ClassVar[frozenset[str]] = frozenset({"es"})
    needs: ClassVar[frozenset[str]] = frozenset({"candidates"})

    def why_not(self, view: View) -> str | None:
        """Also refuses other generators."""
        return super().why_not(view) or why_not_seeded(view)

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`answer` is the probability of each list."""
        drawn, candidates = SeededClients(view).first_queries(), view.candidates
        given = np.full(view.shown.shape[:2], -2) if candidates is None else candidates.query
        named = (given == drawn[:, np.newaxis]).astype(np.float64)
        named[named.sum(axis=1) == 0] = 1.0
        return Inference.about(view, named / np.maximum(1.0, named.sum(axis=1, keepdims=True)))


class ESSeedLink(LinkAttack):
    """Links messages whose seeds follow from each other: the next seed is drawn from the same generator.

    Two messages come from one client if the later seed is among the first `words` words that NumPy's
    RandomState draws after the earlier one. Nothing of queries or clicks has to be known.

    Sees: the seeds of both rounds. Expects the fact `perturbation=numpy-randomstate`.

    Source: as for `es-seed`; Matsumoto & Nishimura 1998, "Mersenne twister", section 2, for the generator.
    """

    name: ClassVar[str] = "es-seed-link"
    reads: ClassVar[frozenset[str]] = frozenset({"es"})
    needs: ClassVar[frozenset[str]] = frozenset()

    words: int = Field(1024, ge=1, le=1 << 16, description="words after a seed among which the next one is")

    def why_not(self, view: View) -> str | None:
        """Also refuses other generators."""
        return super().why_not(view) or why_not_seeded(view)

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`answer` is a message's seed and the words after it."""
        seeds = SeededClients(view).seeds
        rows = np.column_stack([seeds, following_words(seeds, self.words)]).astype(np.float64)
        rows[~is_seed(seeds)] = np.nan
        return Inference.about(view, rows)

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        """The log likelihood ratio: a chance of `words / 2^32` to be there without a chain."""
        apart = np.log(self.words / _WORD)
        out = np.full(offered.shape, apart)
        for row, rest in enumerate(first):
            out[row, np.isin(second[offered[row], 0], rest[1:])] = -apart
        return out
