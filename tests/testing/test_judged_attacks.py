"""Attacks whose answers their task does not accept fail the suite, on rounds that fit the task."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack, Inference, IntentAttack, LinkAttack, View
from foltr_audit.core.plugins.registry import names
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.judge.protocol import judge, task_of
from foltr_audit.judge.queries import QueryTask
from foltr_audit.rng import Streams
from foltr_audit.testing import ContractError, attack_checks, check_attack
from foltr_audit.testing.samples import rounds_to_judge
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.plugin_examples import example

CHECK = "its task accepts its answers"


def about(view: View, *shape: int) -> Inference:
    """The same number everywhere, as the answer of a shape."""
    return Inference.about(view, np.full(shape, 0.5))


def silent(view: View) -> Inference:
    """Scores and guesses, but no answer."""
    return Inference(scores=np.zeros(view.shown.shape), guess=np.zeros(view.shown.shape, np.bool_))


class Even(Attack):
    """Finds all queries equally likely.

    Sees: nothing.
    """

    name: ClassVar[str] = "even"
    asks: ClassVar[str | type] = "query"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, *view.shown.shape[:2])


class OneQueryMore(Even):
    """Sees: nothing."""

    name: ClassVar[str] = "one-query-more"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), view.shown.shape[1] + 1)


class RefusesSeveralLists(Even):
    """Sees: nothing."""

    name: ClassVar[str] = "refuses-several-lists"

    def why_not(self, view: View) -> str | None:
        return super().why_not(view) or ("it reads one list" if view.shown.shape[1] > 1 else None)


class PickyTask(QueryTask):
    """Refuses every attack."""

    name: ClassVar[str] = "picky"

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        wanted = super().begin(record, truth)
        self.session.refuse_all("not in this round")
        return wanted


class Unwanted(Even):
    """Sees: nothing."""

    name: ClassVar[str] = "unwanted"
    asks: ClassVar[str | type] = PickyTask


class EvenIntents(IntentAttack):
    """Finds all intents equally likely.

    Sees: nothing.
    """

    name: ClassVar[str] = "even-intents"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        assert view.intent_labels is not None
        return about(view, len(view), view.intent_labels.shape[3])


class OneIntent(IntentAttack):
    """Sees: nothing."""

    name: ClassVar[str] = "one-intent"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), 1)


class EvenCounts(Attack):
    """Counts half a click on each document.

    Sees: nothing.
    """

    name: ClassVar[str] = "even-counts"
    asks: ClassVar[str | type] = "counts"
    observers: ClassVar[frozenset[str]] = frozenset({"aggregate", "individual"})

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return Inference(scores=self.counts(view), guess=np.zeros(view.shown.shape, np.bool_))

    def counts(self, view: View) -> Floats:
        return np.where(view.is_document, 0.5, 0.0)


class NarrowInSums(EvenCounts):
    """Sees: nothing."""

    name: ClassVar[str] = "narrow-in-sums"

    def counts(self, view: View) -> Floats:
        return super().counts(view)[:, :, : 3 if view.observer == "aggregate" else None]


class SeesNoSums(EvenCounts):
    """Sees: nothing."""

    name: ClassVar[str] = "sees-no-sums"
    observers: ClassVar[frozenset[str]] = frozenset({"individual"})


class Alike(LinkAttack):
    """Finds all messages alike.

    Sees: nothing.
    """

    name: ClassVar[str] = "alike"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), 2)

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        return np.zeros(offered.shape)


class FlatLikeness(Alike):
    """Sees: nothing."""

    name: ClassVar[str] = "flat-likeness"

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        return np.zeros(len(offered))


SLOPPY: list[tuple[type[Attack], str]] = [
    (OneQueryMore, r"an answer of shape \(3, 4\); expected a probability for each list, shape \(3, 3\)"),
    (Unwanted, "expected played rounds that the task picky can judge; found .*not in this round"),
    (OneIntent, r"an answer of shape \(3, 1\); expected a log likelihood for each intent, shape \(3, 2\)"),
    (NarrowInSums, r"scores of shape \(3, 1, 3\); expected \(3, 1, 10\)"),
    (SeesNoSums, "expected observers with aggregate"),
    (FlatLikeness, r"likeness.* shape \(3,\)"),
]


@pytest.mark.parametrize(("cls", "why"), SLOPPY, ids=lambda part: getattr(part, "name", None))
def test_an_answer_that_its_task_does_not_accept_is_found(cls: type[Attack], why: str) -> None:
    by_name = {check.name: check.run for check in attack_checks(cls)}
    with pytest.raises(ContractError, match=f"attack {cls.name}: {CHECK}: .*{why}"):
        by_name[CHECK]()


@pytest.mark.parametrize(
    "attack", [Even(), RefusesSeveralLists(), EvenIntents(messages=9), EvenCounts(), Alike()]
)
def test_honest_attacks_pass(attack: Attack) -> None:
    check_attack(attack)


@pytest.mark.parametrize("name", names(Attack))
def test_registered_attacks_answer_some_rounds(name: str) -> None:
    """The check says something of each: none of them refuses all rounds, not even for reasons of its own."""
    attack = example(Attack, name)
    refused = [
        judge(played.store, played.server, [attack], Streams(1), played.protocol).refused
        for played in rounds_to_judge(attack.reads, task_of(attack))
    ]
    assert {} in refused
