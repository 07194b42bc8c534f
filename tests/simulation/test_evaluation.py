"""Offline metrics of a global model against plain loops over the ranked labels."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, log2
from statistics import fmean

import numpy as np
import pytest

from foltr_audit.core.click_models import (
    CascadeClickModel,
    InformationalClickModel,
    NavigationalClickModel,
    PerfectClickModel,
)
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.ranking_metrics import OFFLINE, ONLINE
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import first_model
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES, collection_of

Grades = list[int]

MODEL = np.random.default_rng(11).normal(size=FEATURES)


def by_score(data: Dataset, query: int) -> tuple[Grades, Grades]:
    """The grades of the ten best documents in score order, ties by position, and all grades."""
    rows = range(int(data.offsets[query]), int(data.offsets[query + 1]))
    scores = [float(np.dot(data.features[row].astype(np.float64), MODEL)) for row in rows]
    grades = [int(data.labels[row]) for row in rows]
    order = sorted(range(len(scores)), key=lambda i: (-round(scores[i], 12), i))
    return [grades[i] for i in order[:10]], grades


def dcg(top: Grades, _: Grades) -> float:
    return sum((2.0**grade - 1) / log2(rank + 1) for rank, grade in enumerate(top, start=1))


def ndcg(top: Grades, grades: Grades) -> float:
    best = dcg(sorted(grades, reverse=True)[:10], grades)
    return dcg(top, grades) / best if best else 0.0


def mrr(top: Grades, _: Grades) -> float:
    return next((1 / rank for rank, grade in enumerate(top, start=1) if grade > 0), 0.0)


def average_precision(top: Grades, grades: Grades) -> float:
    relevant = sum(grade > 0 for grade in grades)
    precisions = [
        sum(grade > 0 for grade in top[:rank]) / rank for rank in range(1, len(top) + 1) if top[rank - 1] > 0
    ]
    return sum(precisions) / min(10, relevant) if relevant else 0.0


def max_rr(click: tuple[float, ...]) -> Callable[[Grades, Grades], float]:
    """P(no click before rank i) - P(none up to i), summed with 1/i."""

    def expected(top: Grades, grades: Grades) -> float:
        del grades
        left = [1.0]
        for grade in top:
            left.append(left[-1] * (1 - click[grade]))
        return sum((left[i] - left[i + 1]) / (i + 1) for i in range(len(top)))

    return expected


def by_hand(data: Dataset, click: tuple[float, ...], skip: bool) -> dict[str, float]:
    routes = {"ndcg": ndcg, "mrr": mrr, "map": average_precision, "dcg": dcg}
    lists = [by_score(data, query) for query in range(data.n_queries)]
    counted = [(top, grades) for top, grades in lists if any(grades) or not skip]
    found = {
        f"offline_{name}@10": sum(route(*each) for each in counted) / len(counted)
        for name, route in routes.items()
    }
    return found | {"offline_maxrr@10": sum(max_rr(click)(*each) for each in lists) / len(lists)}


@pytest.mark.parametrize("no_relevant", ["zero", "skip"])
@pytest.mark.parametrize("click_model", [PerfectClickModel, NavigationalClickModel, InformationalClickModel])
def test_every_metric_by_hand(
    setup_of: SetupOf, collection: Collection, click_model: type[CascadeClickModel], no_relevant: str
) -> None:
    setup = setup_of(click_model=click_model.name, no_relevant=no_relevant)
    click = click_model.click_given_grade[1]
    assert not all(collection.test.has_relevant)
    found = Federation(setup).evaluation.metrics(MODEL)
    expected = by_hand(collection.test, click, no_relevant == "skip")
    assert list(found) == list(OFFLINE)
    assert found == pytest.approx(expected, rel=1e-12)
    other = by_hand(collection.test, click, no_relevant != "skip")
    assert all(abs(found[name] - other[name]) > 1e-3 for name in OFFLINE if "maxrr" not in name)
    assert found["offline_maxrr@10"] == pytest.approx(other["offline_maxrr@10"]), "users click all the same"


def test_the_ceiling_is_what_a_ranker_by_label_reaches(setup_of: SetupOf, collection: Collection) -> None:
    told = []
    for name in Collection.PARTS:
        part = collection.part(name)
        features = np.zeros(part.features.shape, dtype=np.float32)
        features[:, 0] = part.labels
        told.append(part.with_features(features))
    first = np.eye(FEATURES)[0]
    for no_relevant, ceiling in (("zero", float(collection.test.has_relevant.mean())), ("skip", 1.0)):
        evaluation = Federation(setup_of(no_relevant=no_relevant, data=collection_of(*told))).evaluation
        assert evaluation.ceiling == pytest.approx(ceiling)
        found = evaluation.metrics(first)
        for name in ("offline_ndcg@10", "offline_mrr@10", "offline_map@10"):
            assert found[name] == pytest.approx(ceiling, rel=1e-12)


def test_no_expected_maxrr_where_clicks_are_no_cascade(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Every(ClickModel):
        name = "every"

        def click(self, labels, largest_label, streams, step):  # type: ignore[no-untyped-def]
            return labels >= 0

    evaluation = Federation(setup_of()).evaluation
    monkeypatch.setattr("foltr_audit.simulation.evaluation.make", lambda kind, text: Every())
    found = evaluation.metrics(MODEL)
    assert isnan(found.pop("offline_maxrr@10"))
    assert all(value > 0 for value in found.values())


def test_a_round_that_was_not_evaluated_has_the_same_names(setup_of: SetupOf) -> None:
    nothing = Federation(setup_of()).evaluation.missing()
    assert list(nothing) == list(OFFLINE)
    assert all(isnan(value) for value in nothing.values())


@pytest.mark.parametrize(("offline", "online"), [("zero", "skip"), ("skip", "zero"), ("skip", None)])
def test_online_lists_may_count_otherwise_than_offline_ones(
    offline: str, online: str | None, setup_of: SetupOf
) -> None:
    """A setup differs from the one without `no_relevant_online` in online metrics alone."""

    def metrics(no_relevant: str, online: str | None) -> tuple[float, float]:
        train = {"no_relevant_online": online}
        setup = setup_of(rounds=1, clients=60, no_relevant=no_relevant, train=train)
        (played,) = Federation(setup).rounds(MODEL)
        return played.metrics["offline_ndcg@10"], played.metrics["online_ndcg@10"]

    found = metrics(offline, online)
    assert found[0] == metrics(offline, None)[0]
    assert found[1] == metrics(online or offline, None)[1]
    assert metrics("zero", None)[1] < metrics("skip", None)[1], "some lists have nothing relevant"


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=3"])
def test_a_random_start_has_its_norm_and_follows_seed_and_repetition(
    ranker: str, collection: Collection
) -> None:
    def start(init: str, repetition: int = 0) -> Floats:
        spec = Spec(repetition=repetition, train={"init": init, "ranker": ranker})
        return first_model(Setup(spec, collection))

    one = start("random:0.01")
    assert np.sqrt((one**2).sum()) == pytest.approx(0.01, rel=1e-12)
    assert np.array_equal(one, start("random:.010"))
    assert np.allclose(one * 50, start("random:0.5"), rtol=1e-12)
    assert abs(one @ start("random:0.01", 1)) < 0.99e-4


@pytest.mark.parametrize("norm", ["", "0", "-1", "x", "inf", "nan"])
def test_a_random_start_needs_a_norm(norm: str) -> None:
    with pytest.raises(UsageError, match="expected random:NORM"):
        Spec(train={"init": f"random:{norm}"})


# --- online ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("no_relevant", ["zero", "skip"])
@pytest.mark.parametrize("click_model", ["navigational", "perfect"])
def test_every_online_metric_by_hand(
    setup_of: SetupOf, collection: Collection, click_model: str, no_relevant: str
) -> None:
    played = Federation(setup_of(click_model=click_model, no_relevant=no_relevant, clients=40)).play(MODEL, 0)
    done, data = played.sent.interactions, collection.train
    values: dict[str, list[float]] = {name: [] for name in ONLINE}
    for queries, lists, every_click in zip(done.queries, done.shown, done.clicks, strict=True):
        learnt = []
        for place, (query, shown, clicks) in enumerate(zip(queries, lists, every_click, strict=True)):
            grades = data.labels[data.offsets[query] : data.offsets[query + 1]].tolist()
            top = [grades[i] for i in shown if i >= 0]
            ranks = [rank for rank, click in enumerate(clicks, start=1) if click]
            if 0 < len(ranks) < len(top):
                learnt.append(ndcg(top, grades))
            values["maxrr"].append(max((1 / rank for rank in ranks), default=0.0))
            values["dcg"].append(sum(1 / log2(rank + 1) for rank in ranks))
            if any(grades) or no_relevant == "zero":
                values["online_ndcg@10"].append(ndcg(top, grades))
                values["online_ndcg@10_discounted"].append(ndcg(top, grades) * 0.9995**place)
                values["online_dcg@10"].append(dcg(top, grades))
        values["online_ndcg@10_paired"].append(fmean(learnt) if learnt else 0.0)
    found = {name: played.metrics[name] for name in ONLINE}
    assert found == pytest.approx({name: fmean(each) for name, each in values.items()}, rel=1e-12)
    assert len(set(found.values())) == len(found), "no two of them are the same here"
