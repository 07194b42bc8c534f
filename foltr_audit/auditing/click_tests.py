"""Tests whether clicks are randomised as a click defense declares: how often, and each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from foltr_audit.auditing.estimators import clopper_pearson_bound
from foltr_audit.auditing.law_tests import FALSE_ALARM, Test
from foltr_audit.auditing.scripted import Bools, Ints, ScriptedClients
from foltr_audit.metrics import LIST_LENGTH
from foltr_audit.plugins import ClickDefense, RoundContext
from foltr_audit.rng import Streams

_CLIENTS = 16_384
_SLACK = 1e-9  # relative, of an epsilon


def click_tests(clients: ScriptedClients, link: ClickDefense, place: int, epsilon: float) -> Iterator[Test]:
    """Tests of one link that declares to randomise every click with at most this epsilon.

    Args:
        clients: whose chain the link is in.
        link: the link.
        place: its place in the chain, which names its streams.
        epsilon: largest log ratio of one reported bit.
    """
    ids = np.arange(_CLIENTS)
    context = clients.context(0, ids, f"audit/law/defense/{place}/")
    shown = np.tile(np.arange(LIST_LENGTH), (_CLIENTS, 1))
    truth = (ids[:, np.newaxis] // 2 ** np.arange(LIST_LENGTH)) % 2 == 1  # every pattern, 16 times
    flips = _flips(link, truth, shown, 0, context)
    yield from _rates(truth, truth ^ flips, epsilon)
    for i in range(LIST_LENGTH):
        for j in range(i):
            yield _alike(flips[:, i], flips[:, j], "randomised clicks are alike in two places of a list")
    half = _CLIENTS // 2
    yield _alike(flips[:half].ravel(), flips[half:].ravel(), "randomised clicks are alike for two clients")
    others = {
        "in two rounds": _flips(link, truth, shown, 0, replace(context, round=1)),
        "in two interactions": _flips(link, truth, shown, 1, context),
        "under two seeds of the experiment": _flips(
            link, truth, shown, 0, replace(context, source=Streams(clients.setup.spec.seed + 1, 0))
        ),
    }
    for when, again in others.items():
        yield _alike(flips.ravel(), again.ravel(), f"randomised clicks are alike {when}")


def _flips(link: ClickDefense, truth: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
    return np.asarray(link.apply(truth.copy(), shown, step, context) ^ truth)


def _rates(truth: Bools, reported: Bools, epsilon: float) -> Iterator[Test]:
    """Whether a report says more of its click than declared, over all places and in each place."""
    columns = [slice(None), *(slice(i, i + 1) for i in range(truth.shape[1]))]
    for column in columns:
        clicked, said = truth[:, column].ravel(), reported[:, column].ravel()
        trials = min(int(clicked.sum()), int((~clicked).sum()))
        one, none = said[clicked][:trials], said[~clicked][:trials]
        for wrong, missed in ((none, ~one), (~none, one)):
            shown = clopper_pearson_bound(
                int(wrong.sum()),
                int(missed.sum()),
                trials,
                delta=0.0,
                confidence=1.0 - FALSE_ALARM / (2 * len(columns)),
            )
            found = f"randomised clicks tell an epsilon of {shown:.3g} at least, more than is declared"
            yield Test(0.0 if shown > epsilon * (1.0 + _SLACK) else 1.0, found)


def _alike(one: Bools, other: Bools, found: str) -> Test:
    """Whether two rows of flips are independent, by the phi coefficient's normal law."""
    from scipy.special import ndtr

    a, b = one.astype(np.float64), other.astype(np.float64)
    spread = float(a.std() * b.std())
    if spread == 0:
        return Test(0.0 if a.any() and np.array_equal(a, b) else 1.0, found)
    phi = float(np.mean((a - a.mean()) * (b - b.mean()))) / spread
    return Test(min(1.0, 2.0 * float(ndtr(-abs(phi) * np.sqrt(a.size)))), found)
