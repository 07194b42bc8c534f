"""What is made once: views of a round for all tasks, a Jacobian, lists behind a belief, joined parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.rankers import LinearRanker
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import DataError
from foltr_audit.judge import observer as observers
from foltr_audit.judge.observer import Observer, RoundView, click_belief
from foltr_audit.judge.protocol import judge
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from tests.fixtures.tiny import FEATURES
from tests.judge.test_clicks import recording_of
from tests.judge.test_own_task import Shown
from tests.judge.test_queries import fresh

SetupOf = Callable[..., Setup]
MODEL = np.linspace(-0.4, 0.5, FEATURES)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often rounds were viewed, Jacobians computed and training parts ranked."""
    counted: Counter[str] = Counter()
    views, jacobian, shown = Observer.views, LinearRanker.jacobian, observers._shown

    def viewing(self: Observer, record: RoundRecord) -> Iterator[RoundView]:
        counted["views"] += 1
        return views(self, record)

    def deriving(self: LinearRanker, *given: Any) -> Any:
        counted["jacobians"] += 1
        return jacobian(self, *given)

    def ranking(*given: Any) -> Any:
        counted["rankings"] += 1
        return shown(*given)

    monkeypatch.setattr(Observer, "views", viewing)
    monkeypatch.setattr(LinearRanker, "jacobian", deriving)
    monkeypatch.setattr(observers, "_shown", ranking)
    return counted


def test_tasks_share_the_views_of_a_round(setup_of: SetupOf, made: Counter[str]) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=2)
    attacks = [make(Attack, "olsr"), make(Attack, "query-id"), Shown()]
    found = judge(recording, Observer(recording.header, data), attacks, Streams(1))
    assert list(found.found) == ["clicks", "query", "volume"]
    assert made["views"] == recording.n_rounds == 2
    assert made["rankings"] <= 1, "both rounds start from one model, which may have been judged before"


@pytest.mark.parametrize("hidden", [(), ("noise",), ("relevance", "interactions")])
def test_a_jacobian_is_computed_once_whatever_is_hidden(
    hidden: tuple[str, ...], setup_of: SetupOf, collection: Collection, made: Counter[str]
) -> None:
    recording = recording_of(setup_of())
    observer = Observer(recording.header, collection, frozenset(hidden))
    found = judge(recording, observer, [make(Attack, "olsr")], Streams(1)).clicks
    assert found is not None
    assert "olsr" in found.guessed
    assert made["jacobians"] == recording.n_rounds == 2


def test_click_models_share_the_lists_of_the_training_part(
    collection: Collection, made: Counter[str]
) -> None:
    beliefs = [
        click_belief(collection, "linear", MODEL, model, "deterministic")
        for model in ("perfect", "navigational", "informational", "perfect")
    ]
    assert made["rankings"] == 1
    grades = {belief.grades.tobytes() for belief in beliefs if belief is not None}
    clicks = {belief.click.tobytes() for belief in beliefs if belief is not None}
    assert (len(grades), len(clicks)) == (1, 3)
    assert click_belief(collection, "linear", -MODEL, "perfect", "deterministic") is not None
    assert made["rankings"] == 2


def test_joined_parts_are_kept_until_others_are_wanted(collection: Collection) -> None:
    both = collection.joined_parts(("vali", "test"))
    assert collection.joined_parts(["vali", "test"]) is both
    assert both.n_queries == collection.vali.n_queries + collection.test.n_queries
    assert np.array_equal(both.labels, np.concatenate([collection.vali.labels, collection.test.labels]))
    assert collection.joined_parts(("train",)) is collection.train
    assert collection.joined_parts(("test", "vali")) is not both
    with pytest.raises(DataError, match="no part 'all'"):
        collection.joined_parts(("all",))
