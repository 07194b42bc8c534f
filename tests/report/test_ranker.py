"""A ranker that a federation trains: its calls are those of other rankers, its scores those of the engine."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from foltr_audit.defenses.clip import Clip
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import ndcg_score

import foltr_audit as fa
from foltr_audit.core.records import Dataset
from foltr_audit.data import arrays
from foltr_audit.errors import FoltrAuditError
from foltr_audit.experiments.comparison.grid import ComparisonGrid

FEW: dict[str, Any] = {"clients": 20, "rounds": 2}


@pytest.fixture(scope="module")
def parts() -> tuple[Dataset, Dataset]:
    """Queries to train on and others, in units of their own."""
    data = fa.load_data("synthetic:mq2007:60", normalise="none")
    return data.train, data.test


@pytest.fixture(scope="module")
def fitted(parts: tuple[Dataset, Dataset]) -> fa.FederatedRanker:
    train, test = parts
    return fa.FederatedRanker(**FEW).fit(
        train.features,
        train.labels,
        group=train.lengths,
        eval_set=[(test.features, test.labels)],
        eval_group=[test.lengths],
    )


def test_scores_have_the_ndcg_that_training_measured(
    parts: tuple[Dataset, Dataset], fitted: fa.FederatedRanker
) -> None:
    """By the formula of scikit-learn on scores of rows as they were given, in their order."""
    _, test = parts
    scores = fitted.predict(test.features)
    values = [
        ndcg_score([2.0 ** test.labels[rows] - 1], [scores[rows]], k=10) if test.labels[rows].any() else 0.0
        for rows in map(slice, test.offsets[:-1], test.offsets[1:])
    ]
    assert np.mean(values) == pytest.approx(fitted.ndcg_, abs=1e-12)
    alone = [fitted.predict(test.features[row : row + 1])[0] for row in range(5)]
    assert alone == pytest.approx(scores[:5], abs=1e-12)


@pytest.mark.parametrize(
    "form", [csr_array, pd.DataFrame, np.ndarray.tolist], ids=["sparse", "frame", "lists"]
)
def test_forms_of_rows_and_of_queries_change_nothing(
    form: Callable[[Any], object], parts: tuple[Dataset, Dataset], fitted: fa.FederatedRanker
) -> None:
    train, test = parts
    names = np.repeat([f"q{n}" for n in range(train.n_queries)], train.lengths)
    again = clone(fitted).fit(
        form(train.features),
        train.labels.astype(float),
        qid=names,
        eval_set=[(form(test.features), test.labels.tolist())],
        eval_qid=[np.repeat(np.arange(test.n_queries), test.lengths)],
    )
    assert np.array_equal(again.parameters_, fitted.parameters_)
    assert np.array_equal(again.predict(form(test.features)), fitted.predict(test.features))


def test_a_clone_has_the_settings_and_no_model(fitted: fa.FederatedRanker) -> None:
    made = fa.FederatedRanker(clients=7, defense=[Clip(norm=1.5)], random_state=3)
    copy = clone(made)
    assert repr(copy) == repr(made)
    assert copy.get_params().keys() == made.get_params().keys() >= {"clients", "random_state"}
    assert copy.set_params(rounds=4).rounds == 4
    with pytest.raises(FoltrAuditError, match="not trained"):
        clone(fitted).predict([[0.0] * 46])


def test_an_audit_attacks_the_trained_model(fitted: fa.FederatedRanker) -> None:
    report = fitted.audit(methods=["map"])
    (row,) = [row for row in report.results if row["method"] == "map"]
    assert (row["click_model"], row.number("auc")) == ("informational", 1.0)
    assert report.utility[0].number("ndcg@10") == fitted.ndcg_
    assert fitted.audit(methods=["map"], click_models=["perfect"], min_documents=5).results


def test_a_report_compares_its_own_defense_with_others(
    parts: tuple[Dataset, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another process trained the ranker."""
    train, _ = parts
    ranker = fa.FederatedRanker(**FEW, defense=["clip:norm=1.5"])
    ranker = deepcopy(ranker.fit(train.features, train.labels, group=train.lengths))
    monkeypatch.setattr(arrays, "_made", {})
    report = ranker.report(defenses=["proven-click-rr"], runs=1, methods=["map"])
    names = [row["name"] for row in report.results]
    assert names == ["none", "clip:norm=1.5", "proven-click-rr, eps 1.2"]
    assert ComparisonGrid.parse(report.config).spec["population"] == {"clients": FEW["clients"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": None}, "group: missing; expected one of group and qid"),
        ({"qid": [1] * 6}, "group: given with qid"),
        ({"group": [3, 2]}, "group: 5 documents in all; expected 6, the rows of X"),
        ({"group": [0, 6]}, "group: expected the number of documents of each query"),
        ({"group": 2.5}, "group: expected the number of documents of each query"),
        ({"eval_group": [[6]]}, "eval_set: missing"),
        ({"eval_set": [(np.ones((6, 2)), [1] * 6)]}, "eval_group: missing"),
        ({"eval_set": [], "eval_group": [[6]]}, "eval_set: expected a list with one element"),
        ({"X": np.full((6, 2), np.nan)}, "X of train: row 0, column 0: value nan"),
    ],
)
def test_wrong_calls_are_one_clear_line(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"X": np.eye(6)[:, :2], "y": [0, 1] * 3, "group": [3, 3]}
    with pytest.raises(FoltrAuditError, match=message):
        fa.FederatedRanker(**FEW).fit(**{**given, **change})


def test_settings_and_widths_are_checked(fitted: fa.FederatedRanker) -> None:
    with pytest.raises(FoltrAuditError, match="46, as in fit"):
        fitted.predict(np.ones((2, 3)))
    with pytest.raises(FoltrAuditError, match="unknown 'trees'; expected one of clients"):
        fa.FederatedRanker().set_params(trees=3)
    rows = np.eye(4)
    for wrong, message in (
        ({"clients": 0}, "clients"),
        ({"normalise": "query-minmax"}, "expected zscore or none"),
        ({"defense": "clipp"}, "did you mean"),
    ):
        with pytest.raises(FoltrAuditError, match=message):
            fa.FederatedRanker(**{**FEW, **wrong}).fit(rows, [0, 1, 0, 1], group=[2, 2])
