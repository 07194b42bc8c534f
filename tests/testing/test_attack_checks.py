"""Attacks that break their contract fail the suite, with the check and the reason."""

from __future__ import annotations

from collections.abc import Callable
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
    scores: ClassVar[Callable[[View], Floats]]

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        scores = np.broadcast_to(type(self).scores(view), view.shown.shape)
        scores = np.clip(np.where(view.is_document, scores, 0.0), -1e200, 1e200)
        return Inference(scores=scores, guess=(scores > 0) & view.is_document)


ByChange.scores = staticmethod(lambda view: view.score_changes)


class NamesThePadding(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "names-the-padding"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return Inference(scores=view.score_changes, guess=np.ones(view.shown.shape, dtype=np.bool_))


class RunsBlind(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "runs-blind"

    def why_not(self, view: View) -> str | None:
        return None


class Nothing(ByChange):
    """Without the part that says what it sees."""

    name: ClassVar[str] = "sees-nothing"

    steps: int = Field(3, ge=1, description="steps")


def remembers(view: View) -> Floats:
    if not ASKED or len(ASKED[-1]) != len(view):
        ASKED.append(view)
    return view.score_changes + len(ASKED)


def globally_seeded(view: View) -> Floats:
    np.random.seed(1)  # noqa: NPY002
    return view.score_changes + np.random.random()  # noqa: NPY002


def changes_the_view(view: View) -> Floats:
    view.messages.flags.writeable = True
    view.messages[:] += 1
    return np.zeros(view.shown.shape)


def overflows(view: View) -> Floats:
    if np.abs(view.messages).max(initial=0.0) > 1e100:
        raise OverflowError
    return view.score_changes


def unseeded(view: View) -> Floats:
    return np.random.default_rng().random(view.shown.shape)


def by_others(view: View) -> Floats:
    return view.score_changes - np.median(view.score_changes) if len(view) else np.zeros(())


SLOPPY: list[tuple[type[Attack] | Callable[[View], Floats], str, str]] = [
    (remembers, "same seed", "after other views"),
    (unseeded, "same seed", "another one the second time"),
    (globally_seeded, "same seed", "a use of NumPy's global generator"),
    (changes_the_view, "same seed", "a view that stays as it is"),
    (NamesThePadding, "same seed", "expected no guess at the padding"),
    (lambda view: view.score_changes + 0 * view.messages[0, 0], "a view without messages", "IndexError"),
    (by_others, "a message alone", "alone and among others"),
    (lambda view: view.score_changes - np.arange(view.shown.shape[2]), "documents may come", "it stands"),
    (lambda view: view.score_changes / max(1, view.shown[:1].size), "padding says", "more padding"),
    (overflows, "updates of any size", "OverflowError"),
    (RunsBlind, "messages that it cannot read", "expected a refusal that names features; found None"),
    (Nothing, "what it is", "expected a docstring with a part 'Sees:'"),
]


def attack_of(how: type[Attack] | Callable[[View], Floats]) -> type[Attack]:
    if isinstance(how, type):
        return how
    parts = {"__doc__": "Sees: all.", "__module__": __name__, "name": "sloppy", "scores": staticmethod(how)}
    return type("Sloppy", (ByChange,), parts)


@pytest.mark.parametrize(("how", "check", "why"), SLOPPY, ids=lambda part: getattr(part, "__name__", None))
def test_a_sloppy_attack_is_found(how: type[Attack] | Callable[[View], Floats], check: str, why: str) -> None:
    ASKED.clear()
    cls = attack_of(how)
    checks = [one for one in attack_checks(cls) if check in one.name]
    with pytest.raises(ContractError, match=f"attack {cls.name}: .*{check}.*: .*{why}"):
        run_checks(checks)


def test_all_that_fails_is_said_at_once() -> None:
    with pytest.raises(ContractError) as caught:
        check_attack(attack_of(unseeded))
    assert len(caught.value.failures) > 1


def test_honest_attacks_pass() -> None:
    check_attack(ByChange)
    check_attack(ByChange())
    check_attack("olsr")
