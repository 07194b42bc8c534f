"""Attacks that break their contract fail the suite, with the check and the reason."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from pydantic import Field

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.records.interactions import RoundTruth
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


class SearchesMemory(ByChange):
    """Sees: the truth, wherever it is."""

    name: ClassVar[str] = "searches-memory"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        truths = [one for one in gc.get_objects() if type(one) is RoundTruth]  # isinstance asks each object
        found = [truth for truth in truths if truth.clicks.any()]
        count = sum(int(truth.clicks.sum()) for truth in found)
        return self.said(view, view.score_changes + count)


class Remembers(ByChange):
    """Sees: what it was asked before."""

    name: ClassVar[str] = "remembers"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        ASKED.append(view)
        return self.said(view, view.score_changes + len(ASKED))


class RemembersTheOtherView(ByChange):
    """Sees: what it was asked before."""

    name: ClassVar[str] = "remembers-other"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        if not ASKED or len(ASKED[-1]) != len(view):
            ASKED.append(view)
        return self.said(view, view.score_changes + len(ASKED))


class ReadsAFile(ByChange):
    """Sees: a file."""

    name: ClassVar[str] = "reads-a-file"
    place: ClassVar[Path] = Path(__file__).with_name("test_attack_checks.txt")

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        if self.place.exists():
            return self.said(view, view.score_changes + len(self.place.read_text()))
        return self.said(view, view.score_changes)


class ReadsItself(ReadsAFile):
    """Sees: a file."""

    name: ClassVar[str] = "reads-itself"
    place: ClassVar[Path] = Path(__file__).parents[2] / "pyproject.toml"


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


class ChangesTheView(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "changes-the-view"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        out = self.said(view, view.score_changes)
        object.__setattr__(view, "labels", np.zeros_like(view.shown))
        return out


class WritesIntoTheView(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "writes-into-the-view"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        view.messages[:] = 0.0
        return self.said(view, view.score_changes)


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


class Narrow(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "narrow"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        said = super().infer(view, rng)
        return Inference(scores=said.scores[:, :, :3], guess=said.guess[:, :, :3])


class NoProbabilities(ByChange):
    """Sees: everything."""

    name: ClassVar[str] = "no-probabilities"
    probabilities: ClassVar[bool] = True


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
    (SearchesMemory, "truth is out of reach", "another answer where another truth is in memory"),
    (Remembers, "same seed", "two answers to seven messages"),
    (RemembersTheOtherView, "nothing is remembered", "after other views"),
    (ReadsItself, "truth is out of reach", "opens no file, program or address; found open .*pyproject.toml"),
    (Unseeded, "same seed", "two answers"),
    (GloballySeeded, "the view stays", "a use of NumPy's global generator"),
    (ChangesTheView, "the view stays", r"`infer` changed \['labels'\]"),
    (WritesIntoTheView, "same seed", "found ValueError: assignment destination is read-only"),
    (ByPlace, "order of messages", "wherever it stands"),
    (ByOthers, "a message alone", "alone and among others"),
    (ByRank, "documents may come", "wherever it stands"),
    (ByPadding, "padding says nothing", "the same answer with more padding"),
    (NamesThePadding, "same seed", "expected no guess at the padding"),
    (Infinite, "same seed", "expected finite scores"),
    (Narrow, "same seed", r"scores of shape \(7, 1, 3\); expected \(7, 1, 10\)"),
    (NoProbabilities, "same seed", "expected probabilities as scores"),
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


def test_a_file_that_is_not_there_is_not_opened() -> None:
    check_attack(ReadsAFile)
