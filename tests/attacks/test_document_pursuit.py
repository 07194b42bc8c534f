"""Documents read without lists: messages made by hand, and rounds under trap weights."""

from __future__ import annotations

import numpy as np
import pytest
from foltr_audit.attacks.document_pursuit import DocumentPursuit

import foltr_audit as fa
from foltr_audit.core.plugins import Knowledge, View
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records.view import Candidates
from foltr_audit.utils.arrays import Floats

D, N = 12, 60
RNG = np.random.default_rng(5)
COLLECTION = np.round(RNG.normal(size=(N, D)), 3)


def binned(units: int) -> Floats:
    """A model whose units look at the first feature, with thresholds between documents."""
    places = np.sort(COLLECTION[:, 0])
    edges = np.concatenate([[places[0] - 1], (places[1:] + places[:-1]) / 2])[np.arange(units) * N // units]
    weights = np.zeros((units, D))
    weights[:, 0] = 0.1
    return np.concatenate([weights.ravel(), -0.1 * edges, np.full(units, 0.2)])


def message(model: Floats, ranker: str, shown: dict[int, float], *, known: bool) -> View:
    """One update: a sum of the documents' derivatives, each by central differences, times their weights."""
    made, step = make_ranker(ranker, D), 1e-6
    moves = step * np.eye(model.size)
    update = np.zeros(model.size)
    for document, weight in shown.items():
        row = COLLECTION[[document]]
        up, down = (made.score(model + sign * moves, np.tile(row, (model.size, 1, 1))) for sign in (1, -1))
        update += weight * (up - down)[:, 0] / (2 * step)
    lists = np.full((1, 1, 10), -1)
    candidates = Candidates(features=COLLECTION, offsets=np.array([0, N]), query=np.zeros((1, 1), np.int64))
    return View(
        observer="individual",
        kind="update",
        parameters=model[np.newaxis],
        messages=update[np.newaxis],
        shown=lists,
        features=np.zeros((1, 1, 10, D)),
        candidates=candidates if known else None,
        knowledge=Knowledge(ranker=ranker, number_format="float32"),
    )


def answers(view: View) -> Floats:
    (rows,) = np.asarray(DocumentPursuit().infer(view, np.random.default_rng(0)).answer)
    return np.asarray(rows[~np.isnan(rows).any(axis=1)])


def read(view: View) -> dict[int, float]:
    """The documents of an answer, by their number, with their signs; -1 for what is no document."""
    found = {}
    for row in answers(view):
        away = np.abs(COLLECTION - row[:-1]).max(axis=1)
        found[int(away.argmin()) if away.min() < 5e-3 else -1] = float(row[-1])
    return found


def signs(shown: dict[int, float]) -> dict[int, float]:
    return {document: float(np.sign(weight)) for document, weight in shown.items()}


def places(*ranks: int) -> list[int]:
    """The documents at these ranks of the first feature."""
    order = np.argsort(COLLECTION[:, 0])
    return [int(order[rank]) for rank in ranks]


def test_a_document_alone_in_a_bin_is_read_without_knowing_any() -> None:
    shown = dict(zip(places(2, 17, 33, 58), (0.5, -0.2, -0.4, 0.1), strict=True))
    found = read(message(binned(20), "neural:hidden=20", shown, known=False))
    assert found.items() >= signs(shown).items()
    assert found.keys() <= {*shown, -1}


def test_two_clicked_documents_of_a_bin_pass_as_one_where_nothing_is_known() -> None:
    one, other, alone = places(30, 31, 50)  # the first two are in the same of 20 bins of 3
    view = message(binned(20), "neural:hidden=20", {one: 0.3, other: 0.3, alone: -0.6}, known=False)
    mean = COLLECTION[[one, other]].mean(axis=0)
    assert any(np.allclose(row[:-1], mean, atol=1e-3) for row in answers(view))


@pytest.mark.parametrize("units", [4, 10, 20])  # 15, 6 and 3 documents of the collection in a bin
def test_a_known_collection_separates_the_documents_of_a_bin(units: int) -> None:
    shown = dict(zip(places(20, 21, 40, 41, 42), (0.5, -0.2, -0.4, 0.3, -0.2), strict=True))
    assert read(message(binned(units), f"neural:hidden={units}", shown, known=True)) == signs(shown)


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=8", "neural:hidden=6,layers=2"])
def test_few_documents_explain_an_update_of_any_ranker(ranker: str) -> None:
    made = make_ranker(ranker, D)
    model = np.random.default_rng(2).normal(scale=0.5, size=made.n_parameters)
    shown = {7: 0.4, 31: -0.4}
    assert read(message(model, ranker, shown, known=True)) == signs(shown)


def test_a_linear_ranker_shows_nothing_of_unknown_documents() -> None:
    assert read(message(np.ones(D), "linear", {7: 0.4, 31: -0.4}, known=False)) == {}


def test_no_update_holds_no_document() -> None:
    for known in (False, True):
        assert read(message(binned(8), "neural:hidden=8", {}, known=known)) == {}


def rates(server: str, view: str, *hidden: str) -> dict[str, float]:
    """What is read of the messages of ten clients, or of their sums, in a small collection."""
    report = fa.attack(
        fa.Spec(
            data={"source": "synthetic:mq2007:20"},
            population={"clients": 10},
            train={
                "rounds": 2,
                "server": server,
                "ranker": "neural:hidden=16",
                "learner": "fpdgd:interactions=1",
                "click_model": "informational",
            },
            trace={"message": "update"},
            attack={
                "methods": ["document-pursuit"],
                "target": "training",
                "view": view,
                "hide": list(hidden),
            },
        )
    )
    (row,) = report.tasks
    assert row.task == "documents"
    return {name: estimate.value for name, estimate in row.metrics.items()}


def test_trap_weights_show_the_documents_of_a_sum() -> None:
    trapped, honest = rates("trap-weights", "aggregate"), rates("honest", "aggregate")
    assert trapped["read"] > 0.9
    assert trapped["right"] > 0.95
    assert trapped["clicks"] > 0.8  # two clients may see a document, and one of them click it
    assert honest["read"] < trapped["read"]


def test_trap_weights_show_unknown_documents_of_single_messages() -> None:
    trapped, honest = (rates(one, "individual", "candidates") for one in ("trap-weights", "honest"))
    assert trapped["read"] > 0.3
    assert trapped["clicks"] > 0.9
    assert honest["read"] < trapped["read"] / 2
