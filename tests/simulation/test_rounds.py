"""One round of FPDGD in plain NumPy from the published formulas, draw by draw and step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.registry import make
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.learners.fpdgd import FPDGD
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures import foreign_trace
from tests.fixtures.tiny import FEATURES


def pdgd(f: Floats, hidden: Floats, x: Floats, clicks: list[bool], pairs: str) -> Floats:
    """The PDGD gradient of one list with scores f before the `hidden` ones, and feature rows x."""
    return foreign_trace.gradient(f, float(np.exp(hidden).sum()), np.array(clicks), x, pairs)


def drawn_list(f: Floats, u: Floats) -> Ints:
    """A Plackett-Luce list of up to ten documents: one number a rank, running sums in document order."""
    left, shown = list(range(f.size)), []
    for number in u[: f.size]:
        weights = np.exp(f[left] - f[left].max())
        running = np.cumsum(weights)
        place = min(int(np.searchsorted(running, number * running[-1], side="right")), len(left) - 1)
        shown.append(left.pop(place))
    return np.array(shown)


def round_by_hand(setup: Setup, start: Floats, clients: Ints, norm: float | None) -> dict[str, Any]:
    """Every draw and every step of one round 0, one client after the other."""
    data, learner, spec = setup.collection.train, setup.learner, setup.spec
    assert isinstance(learner, FPDGD)
    model = make(ClickModel, spec.train.click_model)
    assert isinstance(model, CascadeClickModel)
    p_click, p_stop = model.setting(setup.collection.largest_label)
    found: dict[str, list[Any]] = {"query": [], "shown": [], "clicks": [], "models": []}
    for client in clients:

        def draws(purpose: str, first: int, size: int, client: int = client) -> Floats:
            one = setup.streams.clients(purpose, 0, np.array([client]))
            return one.uniform(first + size)[0, first:]

        theta = start.copy()
        for step in range(learner.interactions):
            query = int(draws("queries", step, 1)[0] * data.n_queries)
            rows = slice(data.offsets[query], data.offsets[query + 1])
            x, labels = data.features[rows].astype(np.float64), data.labels[rows]
            f = (x * theta).sum(axis=1)
            shown = drawn_list(f, draws("show", step * 10, 10))
            u = draws(f"clicks/{model.name}", 20 * step, 20)
            clicks, reading = [], True
            for i, document in enumerate(shown):
                clicked = reading and bool(u[2 * i] < p_click[labels[document]])
                reading = reading and not (clicked and u[2 * i + 1] < p_stop[labels[document]])
                clicks.append(clicked)
            candidates = learner.normaliser == "candidates"
            hidden = np.delete(f, shown) if candidates else np.empty(0)
            theta = theta + learner.learning_rate * pdgd(f[shown], hidden, x[shown], clicks, learner.pairs)
            if norm is not None:
                theta = theta * min(1.0, norm / max(math.hypot(*theta), 1e-300))
            found["query"].append(query)
            found["shown"].append([*shown.tolist(), *[-1] * (10 - shown.size)])
            found["clicks"].append([*clicks, *[False] * (10 - shown.size)])
        found["models"].append(theta)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
@pytest.mark.parametrize("norm", [None, 0.7])
@pytest.mark.parametrize("click_model", ["perfect", "navigational", "informational"])
def test_a_round_is_what_the_mathematics_say(
    pairs: str, normaliser: str, norm: float | None, click_model: str, setup_of: SetupOf
) -> None:
    learner = f"fpdgd:interactions=3,learning_rate=0.4,pairs={pairs},normaliser={normaliser}"
    defense = ("none",) if norm is None else (f"clip:norm={norm}",)
    some = {"clients": 11, "cohort": 7}  # a client does the same in any cohort
    setup = setup_of(rounds=1, learner=learner, click_model=click_model, defense=defense, **some)
    start = np.linspace(-0.5, 0.6, FEATURES)
    record, truth = Federation(setup).play(start, 0).recorded()
    assert np.array_equal(truth.clients, setup.cohort(0))
    expected = round_by_hand(setup, start, truth.clients, norm)
    assert np.array_equal(record.query, expected["query"])
    assert np.array_equal(record.shown, expected["shown"])
    assert np.array_equal(truth.clicks, expected["clicks"])
    np.testing.assert_allclose(record.messages, expected["models"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(record.aggregate, expected["models"].mean(axis=0), rtol=0, atol=1e-12)
    if norm is None:
        np.testing.assert_allclose(truth.updates, expected["models"] - start, rtol=0, atol=1e-12)
    else:
        lengths = np.sqrt((expected["models"] ** 2).sum(axis=1))
        assert truth.clipped.any()
        assert np.all(lengths <= norm + 1e-12)
    assert truth.clicks.any()


def test_the_noise_of_a_message_is_the_share_of_its_client(setup_of: SetupOf) -> None:
    chain = ("clip:norm=0.7", "gamma-laplace:eps=1.5,sensitivity=6")
    quiet, noisy = (setup_of(rounds=1, clients=9, cohort=4, defense=part) for part in (chain[:1], chain))
    start = np.linspace(-0.5, 0.6, FEATURES)
    clean, truth = Federation(quiet).play(start, 0).recorded()
    record, _ = Federation(noisy).play(start, 0).recorded()
    streams = noisy.streams.clients("defense/1/gamma-laplace", 0, truth.clients)
    share = GammaShare(n=4, scale=4.0).sample(streams, FEATURES)
    assert record.shares == 4, "the cohort, not the population"
    assert np.abs(share).max() > 0.1
    np.testing.assert_allclose(record.messages, clean.messages + share, rtol=0, atol=1e-12)
