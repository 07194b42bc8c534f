"""Clients whose queries and clicks follow from a seed: as one RandomState each, and as published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import foltr_audit as fa
from benchmarks.published_evolution import replayed_rounds
from foltr_audit.core.click_models import InformationalClickModel
from foltr_audit.core.plugins import MetricLearner
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.simulation.client import ClientData
from foltr_audit.simulation.evolution import SeededNumbers, SeededPlayer
from foltr_audit.simulation.setup import Setup, learner_as
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.seed_generators import numpy_normals, numpy_words
from tests.fixtures.command import SHARED, answer, run
from tests.fixtures.seeded_searchers import SIGMA, SOURCE, Searcher
from tests.simulation.test_foltr_es import Seeds

PARTS = SHARED / "data" / "mq2008-parts"


@given(st.lists(st.tuples(st.integers(1, 600), st.integers(0, 3)), max_size=8), st.integers(0, 2**32 - 1))
def test_numbers_are_those_of_random_state(drawn: list[tuple[int, int]], seed: int) -> None:
    numbers, state = SeededNumbers(np.array([seed], dtype=np.uint64), 8), np.random.RandomState(seed)
    row = np.zeros(1, dtype=np.int64)
    for count, uniforms in drawn:
        assert numbers.integers(row, count)[0] == state.randint(0, count)
        for _ in range(uniforms):
            assert numbers.uniform(row)[0] == state.uniform()
    assert numbers.next_words(row)[0] == state.randint(0, 2**32)


def test_clients_do_what_one_random_state_each_does() -> None:
    """Against clients that are played one by one, with a number of lists of their own."""
    data = fa.load_data(SOURCE, normalise="none")
    setup = Setup(Spec.parse({"train": {"learner": f"foltr-es:sigma={SIGMA},as_published=true"}}, ""), data)
    world = ClientData.alike(data.train, InformationalClickModel(), data.largest_label)
    learner = learner_as(setup.learner, MetricLearner)
    model = np.random.default_rng(1).normal(size=data.n_features).astype(np.float32).astype(np.float64)
    counts = np.array([4, 2, 4, 4, 2])
    searchers = [Searcher(np.random.RandomState(50 + c), data) for c in range(counts.size)]
    sent = [one.message(model, int(lists)) for one, lists in zip(searchers, counts, strict=True)]
    seeds: Seeds = np.array([seed for seed, _ in sent], dtype=np.uint64)
    moved = learner.perturbations(seeds, data.n_features)
    half = counts[:, np.newaxis] // 2

    def models(step: int) -> Floats:
        return np.where(step < half, model + moved, model - moved)

    queries, shown, clicks = SeededPlayer(setup, world).play(counts, SeededNumbers(seeds, 4), models)
    for client, (_, lists) in enumerate(sent):
        for step, (query, list_, clicked) in enumerate(lists):
            assert queries[client, step] == query
            np.testing.assert_array_equal(shown[client, step], list_)
            np.testing.assert_array_equal(clicks[client, step], clicked)
        assert (queries[client, len(lists) :] == -1).all()


# Online MaxRR of the first rounds on Fold1, from the arrays that were published with Wang, Zhuang & Zuccon
# 2021 (2,000 clients with 4 interactions, seed 7).
PUBLISHED = {
    ("linear", "perfect"): (0.2592207837301587, 0.283684375, 0.3066863591269841),
    ("linear", "navigational"): (0.3302190972222222, 0.3527419146825397, 0.3747837301587301),
    ("linear", "informational"): (0.6763595238095238, 0.6760605158730159, 0.6911648809523809),
    ("neural:hidden=10", "perfect"): (0.26264002976190476, 0.2739629464285714, 0.2785047123015873),
}


def _fold(folder: Path) -> Collection:
    """Fold1 of MQ2008: its training split is S1 to S3."""
    if not PARTS.is_dir():
        pytest.skip("the parts of MQ2008 are not here")
    given = {"train": ("S1", "S2", "S3"), "vali": ("S4",), "test": ("S5",)}
    for part, names in given.items():
        texts = [(PARTS / f"{name}.txt").read_text() for name in names]
        (folder / f"{part}.txt").write_text("".join(texts))
    return fa.load_data(str(folder), normalise="none", document_order="file")


@pytest.mark.parametrize(("ranker", "click_model"), PUBLISHED)
def test_rounds_are_those_of_the_published_arrays(tmp_path: Path, ranker: str, click_model: str) -> None:
    published = PUBLISHED[ranker, click_model]
    rounds = replayed_rounds(_fold(tmp_path), ranker, click_model)
    assert [next(rounds) for _ in published] == pytest.approx(published, rel=1e-12)


WORLD = f"--data {SOURCE} --normalise none --clients 20 --rounds 2 --eps 0.01"
CLICKS = "--click-model informational"
SEEDS = "--learner foltr-es:as_published=true"


def test_a_run_of_the_published_program_gives_every_click_away(tmp_path: Path) -> None:
    """At an epsilon of nearly 0, and without asking for it: attack and compare try it, and proofs heed it."""
    report = answer(f"attack {WORLD} {CLICKS} {SEEDS}")
    rows = {row["method"]: row for row in report["results"] if not row["baseline"]}
    assert rows["es-seed"]["exact"] == rows["es-seed"]["auc"] == 1.0
    assert rows["es-first-click"]["auc"] < 1.0
    assert "FA121" in {row["code"] for row in report["warnings"]}
    trained = answer(f"attack {WORLD} {SEEDS} --target training --out", tmp_path / "run")
    for found in (report, trained, answer("attack --trace", tmp_path / "run")):
        assert {"es-seed", "es-first-click"} <= {row["method"] for row in found["results"]}
        assert not any(row.get("ceiling_auc") for row in found["results"]), "nothing is proven"
    compared = answer(f"compare {WORLD} {CLICKS} {SEEDS} --defense published --runs 1 --no-audit")
    assert {row["attack"] for row in compared["results"]} == {"es-seed"}
    assert {one["auc"] for row in compared["results"] for one in row["ceilings"] or ()} <= {1.0}


def test_clients_whose_seed_drives_nothing_else_are_safe_from_it() -> None:
    report = answer(f"attack {WORLD} {CLICKS} --learner foltr-es")
    assert {row["method"] for row in report["results"] if not row["baseline"]} == {"es-first-click"}
    assert "FA121" not in {row["code"] for row in report["warnings"]}
    assert all(row["eps_proven"] == 0.01 for row in report["proven"])
    assert all(row["ceiling_auc"] < 1.0 for row in report["results"] if not row["baseline"])
    assert "perturbation" in run(f"attack {WORLD} --learner foltr-es --method es-seed --json").one_error()


def test_clients_that_differ_are_refused() -> None:
    world = f"--data {SOURCE} --clients 5 --rounds 1 --scenario click-skew"
    assert "as_published" in run(f"train {world} --learner foltr-es:as_published=true").one_error()


STATES = np.array([0, 1, 77, 2**31, 2**32 - 1], dtype=np.uint64)


def test_words_and_normal_numbers_are_those_of_randomstate() -> None:
    words, normals = numpy_words(STATES, 700), numpy_normals(STATES, 0.5, 30)
    for seed, drawn, moved in zip(STATES.tolist(), words, normals, strict=True):
        state = np.random.RandomState(seed)
        assert drawn.tolist() == [state.randint(0, 2**32) for _ in range(700)]
        expected = np.random.RandomState(seed).normal(0.0, 0.5, 30).astype(np.float32)
        assert moved.tolist() == expected.tolist()
