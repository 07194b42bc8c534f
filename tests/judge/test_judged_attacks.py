"""Tasks refuse answers that are not of their form, and every registered attack answers played rounds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack, Inference, IntentAttack, LinkAttack, View
from foltr_audit.core.plugins.registry import names
from foltr_audit.errors import PluginError
from foltr_audit.judge.protocol import judge, task_of
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.played_rounds import rounds_to_judge
from tests.fixtures.plugin_examples import example
from tests.fixtures.there import there


def about(view: View, *shape: int) -> Inference:
    """The same number everywhere, as the answer of a shape."""
    return Inference.about(view, np.full(shape, 0.5))


class Even(Attack):
    """Finds all queries equally likely, of more lists than there are.

    Sees: nothing.
    """

    name: ClassVar[str] = "even"
    asks: ClassVar[str | type] = "query"
    more: int = 0

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), view.shown.shape[1] + self.more)


class EvenIntents(IntentAttack):
    """Finds all intents equally likely, or knows one alone.

    Sees: nothing.
    """

    name: ClassVar[str] = "even-intents"
    one: bool = False

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), 1 if self.one else there(view.intent_labels).shape[3])


class EvenCounts(Attack):
    """Counts half a click on each document, in sums of the first few.

    Sees: nothing.
    """

    name: ClassVar[str] = "even-counts"
    asks: ClassVar[str | type] = "counts"
    observers: ClassVar[frozenset[str]] = frozenset({"aggregate", "individual"})
    in_sums: int = 10

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        counts = np.where(view.is_document, 0.5, 0.0)
        width = self.in_sums if view.observer == "aggregate" else None
        return Inference(scores=counts[:, :, :width], guess=np.zeros(view.shown.shape, np.bool_))


class Alike(LinkAttack):
    """Finds all messages alike, or says so once of each.

    Sees: nothing.
    """

    name: ClassVar[str] = "alike"
    flat: bool = False

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), 2)

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        return np.zeros(len(offered) if self.flat else offered.shape)


def refusals(attack: Attack) -> list[dict[str, str]]:
    """What judging an attack on each form of played rounds says of it."""
    return [
        judge(played.store, played.server, [attack], Streams(1), played.protocol).refused
        for played in rounds_to_judge(attack.reads, task_of(attack))
    ]


SLOPPY: list[tuple[Attack, str]] = [
    (Even(more=1), r"an answer of shape \(3, 4\); expected a probability for each list, shape \(3, 3\)"),
    (EvenIntents(one=True), r"of shape \(3, 1\); expected a log likelihood for each intent, shape \(3, 2\)"),
    (EvenCounts(in_sums=3), r"scores of shape \(3, 1, 3\); expected \(3, 1, 10\)"),
    (Alike(flat=True), r"likeness.* shape \(3,\)"),
]


@pytest.mark.parametrize(("attack", "why"), SLOPPY, ids=str)
def test_an_answer_that_its_task_does_not_accept_is_refused(attack: Attack, why: str) -> None:
    with pytest.raises(PluginError, match=why):
        refusals(attack)


@pytest.mark.parametrize("name", names(Attack))
def test_registered_attacks_answer_some_rounds(name: str) -> None:
    attack = example(Attack, name)
    single = {"messages": 1} if isinstance(attack, IntentAttack) else {}  # several would need more rounds
    assert {} in refusals(attack.model_copy(update=single))
