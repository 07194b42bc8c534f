"""Documents that attacks read: what counts as read, and as right, by a plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.errors import PluginError
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import judge
from foltr_audit.judge.read_documents import DocumentEvidence
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from tests.fixtures.client_recordings import DATA, recorded

SetupOf = Callable[..., Setup]


class Peeking(Attack):
    """Names the first documents of each message, moved by some distance, and one that nobody was shown."""

    name: ClassVar[str] = "toy-peeking"
    asks: ClassVar[str | type] = "documents"
    first: int = 2
    off: float = 0.0
    narrow: bool = False

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        n, _, _, d = view.features.shape
        answer = np.full((n, self.first + 2, d + 1 - self.narrow), np.nan)
        answer[:, : self.first, :d] = view.features[:, 0, : self.first] + self.off
        answer[:, self.first, :d] = 1e6
        if not self.narrow:
            answer[:, : self.first + 1, d] = 1.0
        return Inference.about(view, answer)


def found_by(setup_of: SetupOf, *attacks: Attack) -> tuple[DocumentEvidence, dict[str, np.ndarray]]:
    """The evidence, and by a plain loop its rows of the first two attacks."""
    store = recorded(setup_of, rounds=2, intents=[0, 1, 0], seed=4)
    evidence = judge(store, Observer(store.header, DATA), attacks, Streams(1)).found["documents"]
    assert isinstance(evidence, DocumentEvidence)
    rows = []
    only = store.header.knowledge["pairs"] == "last-click+1"
    for record, truth in zip(store.records, store.truth, strict=True):
        for slot in range(record.n_messages):
            there = np.flatnonzero(record.slot == slot)
            lists = [DATA.train.shown_features(record.query[[i]], record.shown[[i]])[0] for i in there]
            answers = [lists[0][place] for place in range(2)]
            shown = read = clicked = 0
            right = set()
            for i, features in zip(there, lists, strict=True):
                clicks, real = truth.clicks[i], record.shown[i] >= 0
                last = np.flatnonzero(clicks).max(initial=-2) + 1 if only else clicks.size
                pairs = [p for p in np.flatnonzero(real) if p <= last]
                if not clicks.any() or all(clicks[pairs]):
                    pairs = []
                for place in np.flatnonzero(real):
                    same = [a for a, one in enumerate(answers) if np.array_equal(one, features[place])]
                    right |= set(same)
                    if place in pairs:
                        shown += 1
                        read += bool(same)
                        clicked += bool(same) and bool(clicks[place])
            rows.append([shown, read, clicked, 3, len(right)])
    return evidence, {"loop": np.array(rows, dtype=np.float64)}


def test_counts_are_those_of_a_plain_loop(setup_of: SetupOf) -> None:
    evidence, by_hand = found_by(setup_of, Peeking(), Peeking(off=0.5))
    assert np.array_equal(evidence.shown, by_hand["loop"][:, 0])
    assert np.array_equal(evidence.found["toy-peeking"], by_hand["loop"][:, 1:])
    assert evidence.shown.sum() > 0
    scores = {score.method: score for score in evidence.scores(Streams(1))}
    exact, off = scores["toy-peeking"].metrics, scores["toy-peeking:off=0.5"].metrics
    _, read, clicked, answers, right = by_hand["loop"].sum(axis=0)
    assert exact["read"].value == pytest.approx(read / evidence.shown.sum())
    assert exact["clicks"].value == pytest.approx(clicked / read)
    assert exact["right"].value == pytest.approx(right / answers)
    assert off["read"].value < exact["read"].value
    assert evidence.message.size == np.unique(evidence.message).size


def test_an_answer_of_another_width_is_refused(setup_of: SetupOf) -> None:
    with pytest.raises(PluginError, match="features and a sign for each document"):
        found_by(setup_of, Peeking(narrow=True))
