"""The example app for Flower: what its clients compute, by other routes. Nothing here needs Flower."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

import foltr_audit as fa
from foltr_audit.core.click_models import InformationalClickModel, NavigationalClickModel, PerfectClickModel
from foltr_audit.kernels.jit import read_only
from foltr_audit.kernels.pdgd import pdgd_coefficients
from tests.fixtures.doc_examples import ROOT

CHANCE = 1e-6
"""Largest probability that a statistical test of this file fails although nothing is wrong."""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The modules of the app that need NumPy alone."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "flower"))
    names = ("letor_data", "searching_user", "pdgd_learner")
    return {name: importlib.import_module(f"federated_search.{name}") for name in names}


@pytest.mark.parametrize("seed", range(4))
def test_a_step_is_that_of_the_package(app: dict[str, ModuleType], seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, model = rng.normal(size=(7, 5)), rng.normal(size=5)
    for clicks in itertools.product([False, True], repeat=7):
        scores, clicked = features @ model, np.array(clicks)
        (coefficients,), _ = pdgd_coefficients(
            scores, np.array([0, 7]), np.arange(7)[np.newaxis], read_only(clicked[np.newaxis]), False, False
        )
        found = app["pdgd_learner"].pdgd_step(model, features, clicked, 0.1)
        np.testing.assert_allclose(found, 0.1 * coefficients @ features, rtol=1e-10, atol=1e-15)


def test_click_models_are_the_published_ones(app: dict[str, ModuleType]) -> None:
    published = (PerfectClickModel, NavigationalClickModel, InformationalClickModel)
    assert {model.name: model.setting(2) for model in published} == app["searching_user"].CLICK_MODELS


def test_users_click_as_often_as_their_model_says(app: dict[str, ModuleType]) -> None:
    draws, grades = 20_000, np.array([2, 0, 1])
    click, stop = app["searching_user"].CLICK_MODELS["informational"]
    expected, reading = [], 1.0
    for grade in grades:
        expected.append(reading * click[grade])
        reading *= 1 - click[grade] * stop[grade]
    rng = np.random.default_rng(1)
    clicks = sum(
        app["searching_user"].cascade_clicks(grades, "informational", rng).astype(int) for _ in range(draws)
    )
    for count, probability in zip(np.asarray(clicks).tolist(), expected, strict=True):
        assert stats.binomtest(int(count), draws, probability).pvalue > CHANCE / 3


def test_lists_are_sampled_by_the_scores(app: dict[str, ModuleType]) -> None:
    """The first document of a Plackett-Luce list has the probability of a softmax."""
    scores, draws = np.array([0.0, 1.0, 2.0]), 6_000
    query = app["letor_data"].SearchQuery(0, np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.int64))
    rng = np.random.default_rng(2)
    first = [app["searching_user"].search(query, scores, "perfect", 2, rng).shown[0] for _ in range(draws)]
    weights = np.exp(scores)
    found = stats.chisquare(np.bincount(first, minlength=3), draws * weights / weights.sum())
    assert found.pvalue > CHANCE


def test_shares_of_all_clients_are_laplace_noise(app: dict[str, ModuleType]) -> None:
    rng = np.random.default_rng(3)
    total = sum(app["pdgd_learner"].noise_share(4_000, 50, 2.5, rng) for _ in range(50))
    assert stats.kstest(np.asarray(total), stats.laplace(scale=2.5).cdf).pvalue > CHANCE
    one = app["pdgd_learner"].noise_share(4_000, 1, 2.5, rng)
    assert stats.kstest(one, stats.laplace(scale=2.0).cdf).pvalue < CHANCE


def test_a_clip_shortens_long_vectors_alone(app: dict[str, ModuleType]) -> None:
    clipped = app["pdgd_learner"].clipped
    np.testing.assert_allclose(clipped(np.array([3.0, 4.0]), 1.0), [0.6, 0.8])
    np.testing.assert_array_equal(clipped(np.array([0.3, 0.4]), 1.0), [0.3, 0.4])
    np.testing.assert_array_equal(clipped(np.zeros(2), 1.0), np.zeros(2))


def test_letor_files_are_read_as_the_package_reads_them(app: dict[str, ModuleType], tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    lines = [
        f"{rng.integers(3)} qid:{qid} "
        + " ".join(f"{place}:{value:.6f}" for place, value in enumerate(rng.random(5), start=1))
        + " #docid = X"
        for qid in (12, 7, 30)
        for _ in range(6)
    ]
    for part in ("train", "vali", "test"):
        (tmp_path / f"{part}.txt").write_text("\n".join(lines), encoding="utf-8")
    wanted = fa.load_data(str(tmp_path), normalise="none", document_order="file").train
    found = app["letor_data"].load_queries(str(tmp_path))
    assert [query.number for query in found] == [0, 1, 2]
    np.testing.assert_array_equal(np.concatenate([query.features for query in found]), wanted.features)
    np.testing.assert_array_equal(np.concatenate([query.grades for query in found]), wanted.labels)


def test_made_up_queries_have_documents_of_every_grade(app: dict[str, ModuleType]) -> None:
    queries = app["letor_data"].load_queries("")
    assert len(queries) == 60
    assert all(set(query.grades.tolist()) == {0, 1, 2} for query in queries)
