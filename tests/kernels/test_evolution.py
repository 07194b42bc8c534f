"""The kernel that plays clients with perturbed models: the array path's lists and clicks, on any threads."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from foltr_audit.core.click_models import (
    CascadeClickModel,
    InformationalClickModel,
    NavigationalClickModel,
    PerfectClickModel,
)
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records import Dataset
from foltr_audit.kernels.evolution import EvolutionQueries, play_perturbed
from foltr_audit.kernels.ranking import BY_POSITION
from foltr_audit.rng import Streams
from foltr_audit.simulation.learners.foltr_es import FOLtRES
from foltr_audit.utils.arrays import Bools, Floats, Ints, read_only_features
from tests.fixtures import tiny
from tests.fixtures.reference import numba_threads
from tests.fixtures.tiny import score_order
from tests.simulation.test_foltr_es import Seeds, seeds_of


class Cohort(NamedTuple):
    """What clients of a round have beside their seeds."""

    data: Dataset
    queries: Ints
    clients: Ints
    parameters: Floats


def cohort(C: int = 37, B: int = 4) -> Cohort:
    """Clients with gaps in their ids, on queries of 1 to 130 documents with twins among them."""
    data = tiny.dataset((1, 14, 7, 10, 2, 11, 130, 8, 16, 9, 17, 60), 3)
    rng = np.random.default_rng(C)
    return Cohort(
        data, rng.integers(0, 12, size=(C, B)), 7 * np.arange(C) + 2, rng.normal(size=tiny.FEATURES)
    )


def fast(cohort: Cohort, learner: FOLtRES, seeds: Seeds, model: CascadeClickModel) -> tuple[Ints, Bools]:
    """Lists and clicks of the kernel in round 3."""
    clicks = Streams(5).clients("clicks/x", 3, cohort.clients)
    click, stop = (np.array(values) for values in model.setting(2))
    data, queries = cohort.data, cohort.queries
    features = read_only_features(data.features)
    grades = data.labels.astype(np.int8)
    searches = EvolutionQueries(
        *(features, grades, data.offsets, click, stop, 3, clicks.purpose_code, np.uint64(clicks.key)),
        BY_POSITION,
    )
    given = (searches, queries, np.zeros_like(queries), cohort.clients, cohort.parameters, seeds)
    return play_perturbed(*given, learner.sigma, learner.antithetic)


def through_arrays(
    cohort: Cohort, learner: FOLtRES, seeds: Seeds, model: CascadeClickModel
) -> tuple[Ints, Bools]:
    """The same by the ranker, the kernel of lists in score order, and the click model."""
    data, (C, B) = cohort.data, cohort.queries.shape
    moves = learner.perturbations(seeds, cohort.parameters.size)
    shown, clicks = np.empty((C, B, 10), dtype=np.int64), np.empty((C, B, 10), dtype=np.bool_)
    for step in range(B):
        mirrored = learner.antithetic and step >= (B + 1) // 2
        models = cohort.parameters - moves if mirrored else cohort.parameters + moves
        asked = np.ascontiguousarray(cohort.queries[:, step])
        scores, starts = Ranker(tiny.FEATURES).scores(models, data, asked)
        shown[:, step] = score_order(scores, starts, 10)
        labels = data.shown_labels(asked, shown[:, step])
        clicks[:, step] = model.click(labels, 2, Streams(5).clients("clicks/x", 3, cohort.clients), step)
    return shown, clicks


MODELS = [PerfectClickModel(), NavigationalClickModel(), InformationalClickModel()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("antithetic", [True, False])
def test_the_fast_path_is_the_array_path(model: CascadeClickModel, antithetic: bool) -> None:
    for C, B, sigma in ((1, 1, 0.5), (37, 4, 0.01), (37, 5, 2.0), (16, 2, 1e-9), (33, 7, 1.0)):
        here, seeds = cohort(C, B), seeds_of(C, B)
        learner = FOLtRES(sigma=sigma, antithetic=antithetic)
        found, expected = fast(here, learner, seeds, model), through_arrays(here, learner, seeds, model)
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])
        other = through_arrays(here, FOLtRES(sigma=sigma, antithetic=not antithetic), seeds, model)
        assert C == 1 or sigma < 0.1 or not np.array_equal(found[0], other[0])


def test_documents_that_score_alike_keep_their_order() -> None:
    here, learner = cohort(20, 3), FOLtRES()
    flat = Cohort(here.data, here.queries, here.clients, np.zeros(tiny.FEATURES))
    same = replace(here.data, features=np.zeros_like(here.data.features))
    shown, _ = fast(flat._replace(data=same), learner, seeds_of(20), PerfectClickModel())
    sizes = same.lengths[here.queries][..., np.newaxis]
    assert np.array_equal(shown, np.where(np.arange(10) < sizes, np.arange(10), -1))


def test_any_threads_and_any_place() -> None:
    here, learner, seeds = cohort(50), FOLtRES(sigma=1.0), seeds_of(50)
    whole = fast(here, learner, seeds, InformationalClickModel())
    for threads in (1, 2):
        with numba_threads(threads):
            again = fast(here, learner, seeds, InformationalClickModel())
        assert all(np.array_equal(a, b) for a, b in zip(whole, again, strict=True))
    some = np.array([40, 3, 22])
    part = Cohort(here.data, here.queries[some], here.clients[some], here.parameters)
    for a, b in zip(fast(part, learner, seeds[some], InformationalClickModel()), whole, strict=True):
        assert np.array_equal(a, b[some])
    nobody = Cohort(here.data, here.queries[:0], here.clients[:0], here.parameters)
    assert fast(nobody, learner, seeds[:0], PerfectClickModel())[0].shape == (0, 4, 10)


def test_seeds_drive_lists_and_nothing_else() -> None:
    """All seeds changed: what is asked stays, and who is shown the same list clicks the same documents."""
    here, learner = cohort(400), FOLtRES(sigma=0.3)
    asked = here.queries.copy()
    one, two = (fast(here, learner, seeds_of(400, seed), InformationalClickModel()) for seed in (1, 2))
    assert np.array_equal(here.queries, asked)
    same = (one[0] == two[0]).all(axis=2)
    assert 50 < same.sum() < same.size - 50
    assert np.array_equal(one[1][same], two[1][same])
    # a click tells its uniform number from the grade alone: both runs obey the same numbers everywhere
    u = Streams(5).clients("clicks/x", 3, here.clients).uniform(80).reshape(400, 4, 10, 2)
    chance = np.array(InformationalClickModel().setting(2)[0])
    for shown, clicks in (one, two):
        rows = here.data.offsets[here.queries][..., np.newaxis] + np.maximum(shown, 0)
        grades = here.data.labels[rows]
        assert (u[..., 0][clicks] < chance[grades][clicks]).all()
        first_wanted = np.where(shown >= 0, u[..., 0] < chance[grades], False)
        assert np.array_equal(first_wanted.any(axis=2), clicks.any(axis=2))
        assert np.array_equal(first_wanted.argmax(axis=2), clicks.argmax(axis=2))
