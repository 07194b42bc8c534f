from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import SUBJECTS, main
from benchmarks.engine import threads_here
from benchmarks.figures import SCHEMA, TARGETS
from benchmarks.options import BenchmarkOptions
from benchmarks.plain_loop import PlainLoop, cascade_clicks, pdgd_gradient, sample_list
from benchmarks.shapes import mq2007
from foltr_audit.core.click_models import InformationalClickModel, PerfectClickModel
from foltr_audit.core.rankers import Ranker
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.learners.fpdgd import FPDGD
from tests.fixtures.flower import flower_python
from tests.fixtures.reference import (
    chi_square_p,
    dataset,
    exact_pair_weights,
    list_probability,
    pairwise_gradient,
)


@given(seed=st.integers(0, 10_000), documents=st.integers(2, 14), spread=st.sampled_from([0.1, 0.3, 1.0]))
def test_the_plain_gradient_is_that_of_the_engine_and_of_the_definition(
    seed: int, documents: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    data = dataset(rng.normal(size=(documents, 3)), np.zeros(documents), [documents])
    X, theta = data.features.astype(np.float64), rng.normal(size=3) * spread
    shown = rng.permutation(documents)[:10]
    clicks = rng.random(shown.size) < 0.4
    scores = X @ theta
    plain = pdgd_gradient(X, scores, shown, clicks)

    learner = FPDGD(interactions=1, learning_rate=1.0)
    query, starts = np.zeros(1, dtype=np.int64), np.array([0, documents])
    padded = np.full((1, 10), -1)
    padded[0, : shown.size] = shown
    clicked = np.zeros((1, 10), dtype=np.bool_)
    clicked[0, : shown.size] = clicks
    zero = np.zeros((1, 3))
    ranker = Ranker(3)
    stepped, moved = learner.local_step(zero, data, query, scores, starts, padded, clicked, ranker)

    assert (plain is not None) == moved[0]
    gradient = np.zeros(3) if plain is None else plain
    np.testing.assert_allclose(gradient, stepped[0], rtol=1e-6, atol=1e-9)
    W = exact_pair_weights(scores, shown.tolist(), candidates=True)
    defined = pairwise_gradient(W, X[shown], clicks.tolist(), last_click_plus_1=True)
    np.testing.assert_allclose(gradient, defined, rtol=1e-6, atol=1e-9)


def test_the_plain_lists_are_plackett_luce() -> None:
    rng = np.random.default_rng(3)
    scores = np.array([0.7, -0.4, 0.1])
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    drawn = [tuple(sample_list(scores, rng).tolist()) for _ in range(4000)]
    law = [list_probability(np.exp(scores), order, range(3)) for order in orders]
    assert chi_square_p([drawn.count(order) for order in orders], law) > 1e-4


def test_the_plain_clicks_are_a_cascade() -> None:
    rng = np.random.default_rng(4)
    click, stop = (np.asarray(values) for values in InformationalClickModel.setting(2))
    lists = [cascade_clicks(np.array([2, 0, 1]), click, stop, rng) for _ in range(4000)]
    first, second = 0.9, (1 - 0.9 * 0.5) * 0.4
    third = ((1 - 0.9 * 0.5) - second * 0.1) * 0.7
    for place, chance in enumerate((first, second, third)):
        clicked = sum(bool(clicks[place]) for clicks in lists)
        assert chi_square_p([clicked, 4000 - clicked], [chance, 1 - chance]) > 1e-4


def test_the_plain_loop_learns_like_the_engine() -> None:
    """Both take the same number of steps from zero: the models point the same way, and are as long."""
    shape = mq2007(BenchmarkOptions(quick=True))
    setup = shape.bare(shape.collection())
    features, labels = PlainLoop.queries_of(setup.collection.train)
    click, stop = (np.asarray(values) for values in PerfectClickModel.setting(2))
    loop = PlainLoop(features, labels, click, stop, shape.clients, shape.interactions)
    rng, plain, ours = np.random.default_rng(6), np.zeros(46), np.zeros(46)
    for round_ in range(20):
        plain = loop.round(plain, rng)
        ours = Federation(setup).play(ours, round_).aggregate
    assert plain @ ours / np.linalg.norm(plain) / np.linalg.norm(ours) > 0.9
    assert 0.8 < np.linalg.norm(plain) / np.linalg.norm(ours) < 1.25


@pytest.mark.slow
def test_everything_runs_in_quick_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, table = tmp_path / "new" / "bench.json", tmp_path / "BENCHMARKS.md"
    chosen = [word for name in SUBJECTS for word in ("--only", name)]
    assert main(["--quick", "--json", str(path), "--markdown", str(table), *chosen]) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["schema"] == SCHEMA
    figures = {row["key"]: row for row in found["figures"]}
    absent = {key for key in TARGETS if key.startswith("papers.mslr")}  # the same code as papers.mq2007
    if 2 not in threads_here():  # what is told of one thread then is told of all threads
        absent |= {"mq2007.two_threads", "mq2007.trace_over_none_1", "mslr.trace_over_none_1"}
    if flower_python() is None:
        absent.add("flower.recorded_over_plain")
    assert set(TARGETS) - absent <= set(figures)
    assert all(row["value"] > 0 for row in figures.values())
    assert len(figures) == len(found["figures"])
    assert "the figures mean nothing" in table.read_text(encoding="utf-8")
    capsys.readouterr()
    again = tmp_path / "again.md"
    assert main(["--read", str(path), "--markdown", str(again)]) == 0
    assert again.read_text(encoding="utf-8") == table.read_text(encoding="utf-8")
