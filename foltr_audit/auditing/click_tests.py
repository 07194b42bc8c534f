"""Tests whether clicks are randomised as a click defense declares: how often, and independently."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.estimators import clopper_pearson_bound
from foltr_audit.auditing.law_tests import FALSE_ALARM, LawTestResult
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Ints

_CLIENTS = 16_384
_FEWER = 4096  # clients of another round or interaction, and with one number of clicks
_ROUNDS, _STEPS = (1, 2, 7), 8
_LENGTHS = (LIST_LENGTH, LIST_LENGTH // 2)
_BOUNDS = 200  # bounds that are compared at most: in places, numbers of clicks, interactions and rounds
_SLACK = 1e-9  # relative, of an epsilon


def check_clicks(
    clients: GameClients, link: Defense, place: int, epsilon: float, interactions: int = 1
) -> Iterator[LawTestResult]:
    """Tests of one link that declares to randomise every click with at most this epsilon.

    Args:
        clients: whose chain the link is in.
        link: the link.
        place: its place in the chain, which names its streams.
        epsilon: largest log ratio of one reported bit.
        interactions: B, of each client in a round.
    """
    tried = _FlipSampler(
        link, clients.context(0, np.arange(_CLIENTS), f"audit/law/defense/{place}/", interactions)
    )
    truth = _every_pattern(_CLIENTS)
    flips = tried.flips(truth)
    yield from _check_rates(truth, truth ^ flips, epsilon, columns=True)
    yield from _check_by_number_of_clicks(tried, epsilon)
    i, j = np.triu_indices(LIST_LENGTH, 1)
    where = "randomised clicks are alike in two places of a list"
    yield from _check_pair(flips[:, i], flips[:, j], (truth[:, i], truth[:, j]), where)
    half = _CLIENTS // 2
    yield from _check_pair(
        flips[:half],
        flips[half:],
        (truth[:half], truth[:half]),
        "randomised clicks are alike for two clients",
    )
    few = truth[:_FEWER]
    steps = sorted({0, interactions - 1, *range(min(interactions, _STEPS))})
    kinds = {
        "interactions": [tried.flips(few, step=step) for step in steps],
        "rounds": [tried.flips(few, round_=round_) for round_ in (0, *_rounds(clients))],
    }
    for kind, several in kinds.items():
        for again in several[1:]:
            yield from _check_rates(few, few ^ again, epsilon)
        for one, other in combinations(several, 2):
            yield from _check_pair(one, other, (few, few), f"randomised clicks are alike in two {kind}")
    again = tried.flips(few, source=Streams(clients.setup.spec.seed + 1, 0))
    seeds = "randomised clicks are alike under two seeds of the experiment"
    yield from _check_pair(flips[:_FEWER], again, (few, few), seeds)


class _FlipSampler(NamedTuple):
    """Applies a link to given clicks."""

    link: Defense
    context: RoundContext

    def flips(self, truth: Bools, *, step: int = 0, round_: int = 0, source: Streams | None = None) -> Bools:
        """Which clicks (C, k) of the first C clients are reported wrongly, on lists padded to ten places."""
        count, k = truth.shape
        context = replace(
            self.context,
            round=round_,
            clients=self.context.clients[:count],
            counts=self.context.counts[:count],
            source=source or self.context.source,
        )
        shown = np.where(np.arange(LIST_LENGTH) < k, np.arange(LIST_LENGTH), -1)
        padded = np.zeros((count, LIST_LENGTH), dtype=np.bool_)
        padded[:, :k] = truth
        reported = self.link.on_clicks(padded.copy(), np.tile(shown, (count, 1)), step, context)
        return np.asarray(reported[:, :k] ^ truth)


def _rounds(clients: GameClients) -> Sequence[int]:
    """Some later rounds of the run, always the second and the last."""
    last = clients.setup.spec.train.rounds - 1
    return sorted({1, last, *(round_ for round_ in _ROUNDS if round_ < last)} - {0})


def _every_pattern(count: int) -> Bools:
    return np.asarray((np.arange(count)[:, np.newaxis] // 2 ** np.arange(LIST_LENGTH)) % 2 == 1)


def _orders(count: int, length: int) -> Ints:
    """An order of the places of a list for each client, int64 (C, k)."""
    # A step that has no divisor in common with the length visits every place once.
    steps = np.array([step for step in range(1, length) if math.gcd(step, length) == 1])
    rows = np.arange(count)[:, np.newaxis]
    return np.asarray((np.arange(length) * steps[rows % steps.size] + rows // steps.size) % length)


def _check_by_number_of_clicks(tried: _FlipSampler, epsilon: float) -> Iterator[LawTestResult]:
    """Bits of lists with c clicks compared with lists with c + 1: neighbours differ in one click."""
    for length in _LENGTHS:
        ranks = _orders(_FEWER, length)
        batches = [ranks < clicks for clicks in range(length + 1)]
        reports = [truth ^ tried.flips(truth) for truth in batches]
        for c in range(length):
            bits = np.concatenate([batches[c][~batches[c]], batches[c + 1][batches[c + 1]]])
            said = np.concatenate([reports[c][~batches[c]], reports[c + 1][batches[c + 1]]])
            yield from _check_rates(bits[:, np.newaxis], said[:, np.newaxis], epsilon)


def _check_rates(
    truth: Bools, reported: Bools, epsilon: float, *, columns: bool = False
) -> Iterator[LawTestResult]:
    """Whether a report reveals more of its click than declared, over all places, and in each place."""
    each = [slice(i, i + 1) for i in range(truth.shape[1])] if columns else []
    for column in [slice(None), *each]:
        clicked, said = truth[:, column].ravel(), reported[:, column].ravel()
        # The bound is for equally many trials of both hypotheses; more of one kind are left out.
        trials = min(int(clicked.sum()), int((~clicked).sum()))
        one, none = said[clicked][:trials], said[~clicked][:trials]
        for wrong, missed in ((none, ~one), (~none, one)):
            counts, confidence = (int(wrong.sum()), int(missed.sum())), 1.0 - FALSE_ALARM / _BOUNDS
            shown = clopper_pearson_bound(*counts, trials, delta=0.0, confidence=confidence)
            found = f"randomised clicks show an epsilon of at least {shown:.3g}, more than is declared"
            yield LawTestResult(0.0 if shown > epsilon * (1.0 + _SLACK) else 1.0, found)


def _check_pair(one: Bools, other: Bools, truths: tuple[Bools, Bools], found: str) -> Iterator[LawTestResult]:
    """Whether flips (N, m) are independent of others, column by column, given the clicks that each hides.

    The number of common flips among the same clicks is hypergeometric given how many there are of each.
    Where flips are rare, common ones are counted over all clicks: their number is at most about Poisson.
    """
    from scipy.special import pdtrc
    from scipy.stats import hypergeom

    kinds = [(truths[0] == a) & (truths[1] == b) for a in (False, True) for b in (False, True)]
    clicks, first, second, common = (
        np.array([(kind & flips).sum(axis=0) for kind in kinds])
        for flips in (np.ones_like(one), one, other, one & other)
    )
    tails = (hypergeom.cdf(common, clicks, first, second), hypergeom.sf(common - 1, clicks, first, second))
    least = min(float(np.asarray(tail)[clicks > 0].min(initial=1.0)) for tail in tails)
    yield LawTestResult(min(1.0, 2.0 * clicks.size * least), found)
    seen, expected = int(common.sum()), float((first * second / np.maximum(clicks, 1)).sum())
    yield LawTestResult(float(pdtrc(seen - 1, expected)) if seen > expected + 1 else 1.0, found)
