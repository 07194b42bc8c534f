"""Attacks that break their contract fail the suite, with the check and the reason."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from pydantic import Field

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.testing import ContractError, attack_checks, check_attack
from foltr_audit.testing.contract import run_checks
from foltr_audit.utils.arrays import Floats

ASKED: list[View] = []
"""What sloppy attacks remember."""


class ByChange(Attack):
    """Names documents whose score rises.

    Sees: everything.
    """

    name: ClassVar[str] = "by-change"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return self.said(view, view.score_changes)

    def said(self, view: View, scores: Floats) -> Inference:
        scores = np.clip(np.where(view.is_document, scores, 0.0), -1e200, 1e200)
        return Inference(scores=scores, guess=(scores > 0) & view.is_document)


class RemembersTheOtherView(ByChange):
    """Sees: what it was asked before."""

    name: ClassVar[str] = "remembers-other"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        if not ASKED or len(ASKED[-1]) != len(view):
            ASKED.append(view)
        return self.said(view, view.score_changes + len(ASKED))


class Unseeded(ByChange):
    """Sees: dice."""

    name: ClassVar[str] = "unseeded-attack"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return self.said(view, np.random.default_rng().random(view.shown.shape))


class GloballySeeded(ByChange):
    """Sees: dice."""

    name: ClassVar[str] = "globally-seeded"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        np.random.seed(1)  # noqa: NPY002
        return self.said(view, view.score_changes + np.random.random())  # noqa: NPY002


class ByPlace(ByChange):
    """Sees: the order of messages."""

    name: ClassVar[str] = "by-place"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return self.said(view, view.score_changes + np.arange(len(view))[:, np.newaxis, np.newaxis])


class ByOthers(ByChange):
    """Sees: all messages."""

    name: ClassVar[str] = "by-others"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return self.said(view, view.score_changes - np.median(view.score_changes) if len(view) else 0.0)

    def said(self, view: View, scores: Floats | float) -> Inference:
        return super().said(view, np.broadcast_to(scores, view.shown.shape))


class ByRank(ByChange):
    """Sees: the order of the list, which it does not say that it needs."""

    name: ClassVar[str] = "by-rank"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return self.said(view, view.score_changes - np.arange(view.shown.shape[2]))


class ByPadding(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "by-padding"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return self.said(view, view.score_changes / max(1, view.shown[0].size if len(view) else 1))


class NamesThePadding(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "names-the-padding"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return Inference(scores=view.score_changes, guess=np.ones(view.shown.shape, dtype=np.bool_))


class Infinite(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "infinite"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        guess = np.zeros(view.shown.shape, dtype=np.bool_)
        return Inference(scores=np.full(view.shown.shape, np.inf), guess=guess)


class RunsBlind(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "runs-blind"

    def why_not(self, view: View) -> str | None:
        return None


class Nothing(ByChange):
    """Without the part that says what it sees."""

    name: ClassVar[str] = "sees-nothing"

    steps: int = Field(3, ge=1, description="steps")


SLOPPY: list[tuple[type[Attack], str, str]] = [
    (RemembersTheOtherView, "same seed", "after other views"),
    (Unseeded, "same seed", "another answer"),
    (GloballySeeded, "the view stays", "a use of NumPy's global generator"),
    (ByPlace, "a message alone", "alone and among others"),
    (ByOthers, "a message alone", "alone and among others"),
    (ByRank, "documents may come", "wherever it stands"),
    (ByPadding, "padding says nothing", "the same answer with more padding"),
    (NamesThePadding, "same seed", "expected no guess at the padding"),
    (Infinite, "same seed", "expected finite scores"),
    (
        RunsBlind,
        "messages that it cannot read",
        "expected a refusal of messages of kind telegram; found None",
    ),
    (RunsBlind, "without what it needs", "expected a refusal that names features; found None"),
    (Nothing, "what it is", "expected a docstring with a part 'Sees:'"),
]


@pytest.mark.parametrize(("cls", "check", "why"), SLOPPY, ids=lambda part: getattr(part, "name", None))
def test_a_sloppy_attack_is_found(cls: type[Attack], check: str, why: str) -> None:
    ASKED.clear()
    checks = [one for one in attack_checks(cls) if check in one.name]
    with pytest.raises(ContractError, match=f"attack {cls.name}: .*{check}.*: .*{why}"):
        run_checks(checks)


def test_all_that_fails_is_said_at_once() -> None:
    with pytest.raises(ContractError) as caught:
        check_attack(RunsBlind)
    assert len(caught.value.failures) > 1


def test_honest_attacks_pass() -> None:
    check_attack(ByChange)
    check_attack(ByChange())
    check_attack("olsr")
