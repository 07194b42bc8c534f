"""How likely clicks are before any message, for somebody who knows the grades and how users click."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.judge.pieces import RowIndex, with_rows
from foltr_audit.utils.arrays import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickPriors:
    """Probabilities of clicks on L lists of up to k documents; NaN where they are not known.

    Judged lists have a click, so the first two are those given that.

    Attributes:
        clicked: P(document clicked | the list has a click), float64 (L, k).
        pattern: the largest probability of any pattern of clicks, given that the list has one, float64 (L,).
        any_click: P(the list has a click), float64 (L,).
    """

    clicked: Floats
    pattern: Floats
    any_click: Floats

    @classmethod
    def unknown(cls, shape: tuple[int, ...]) -> Self:
        """No probability is known; `shape` is (L, k)."""
        return cls(
            clicked=np.full(shape, np.nan),
            pattern=np.full(shape[:-1], np.nan),
            any_click=np.full(shape[:-1], np.nan),
        )

    def at(self, rows: RowIndex) -> ClickPriors:
        """The probabilities of some lists."""
        return with_rows(self, (("clicked", "pattern", "any_click"), rows))


def click_priors(view: View, intents: int) -> ClickPriors:
    """The probabilities for the lists of n messages of up to B lists each, with shapes (n, B, k) and (n, B).

    Not known unless users follow a cascade with known probabilities, all with one intent, and lists are short
    enough to weigh every pattern.
    """
    from foltr_audit.kernels.patterns import marginals

    k = view.shown.shape[2]
    found = ClickPriors.unknown(view.shown.shape)
    if view.knowledge.belief is None or view.labels is None or intents > 1 or why_too_long(view):
        return found
    decoder = PatternDecoder(view, "relevance")
    for messages in decoder.chunks():
        for b in range(view.shown.shape[1]):
            beliefs, lengths, which = decoder.distinct_log_priors(messages, b)
            logs = beliefs.copy()
            logs[:, 0] = -np.inf  # the list has a click
            clicked, _, _, total = marginals(logs, lengths, k)
            possible = np.isfinite(total)
            clicked[~possible] = np.nan
            most = np.full(total.size, np.nan)
            most[possible] = np.exp(logs[possible].max(axis=1) - total[possible])
            found.clicked[messages, b], found.pattern[messages, b] = clicked[which], most[which]
            found.any_click[messages, b] = np.exp(total)[which]
    return found
