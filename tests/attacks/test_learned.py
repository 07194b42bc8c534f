"""Learned: what it reads where likelihoods do not fit, and that its trees are the same anywhere."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.attacks.learned import Learned
from foltr_audit.attacks.maximum_posterior import MaximumPosterior
from foltr_audit.attacks.olsr import OLSR
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from foltr_audit.core.plugins import Attack, View
from foltr_audit.inference import click_classifier
from foltr_audit.inference.shadow_messages import MessageForm, Shadows, shadow_messages
from foltr_audit.privacy.noise import Gaussian
from tests.fixtures.reference import numba_threads
from tests.fixtures.tiny import BELIEF
from tests.inference.test_pattern_decoder import answer, known, lists

QUICK = Learned(documents=5000, trees=40)
FORMS = {
    "whole": MessageForm(lists=1, documents=10, kept=0, signs=False),
    "largest": MessageForm(lists=1, documents=10, kept=4, signs=False),
    "signs": MessageForm(lists=1, documents=10, kept=0, signs=True),
}
UNSEEN = 99  # a part whose draws the attack does not make


def sent(form: MessageForm, *, sigma: float = 1e-9, count: int = 300) -> Shadows:
    """Messages of other draws than those that the attack learns from, on features of 16 numbers."""
    knowledge = known("all", "shown", None, Gaussian(sigma=sigma)).having(
        belief=BELIEF, lists="deterministic"
    )
    view = lists([10, 9, 8] * 20, knowledge, features=16, kind="update")
    view = replace(view, parameters=np.tile(view.parameters[0], (60, 1)))
    return shadow_messages(view, 0, form, count, UNSEEN)


def auc(attack: Attack, made: Shadows) -> float:
    scores, here = answer(attack, made.view).scores, made.view.is_document
    return float(roc_auc_score(made.clicks[here], scores[here]))


@pytest.mark.parametrize("name", ["largest", "signs"])
def test_it_reads_compressed_messages_better_than_regression_and_likelihood(name: str) -> None:
    made = sent(FORMS[name])
    found = auc(QUICK, made)
    assert found > auc(OLSR(), made) + 0.05
    assert found > auc(MaximumPosterior(), made) + 0.1


def test_its_scores_are_probabilities() -> None:
    """Documents of a score of about .3 are clicked about that often."""
    made = sent(FORMS["signs"], count=2000)
    scores, here = answer(Learned(), made.view).scores, made.view.is_document
    for low in (0.1, 0.3, 0.5, 0.7):
        some = here & (scores >= low) & (scores < low + 0.2)
        assert some.sum() > 300
        assert abs(made.clicks[some].mean() - scores[some].mean()) < 0.06


def test_trees_are_kept_for_what_they_were_trained_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sent(FORMS["whole"], sigma=0.2)
    trained: list[MessageForm] = []
    real = click_classifier.ShadowTraining._trained

    def counted(self: click_classifier.ShadowTraining, view: View, row: int, form: MessageForm) -> object:
        trained.append(form)
        return real(self, view, row, form)

    monkeypatch.setattr(click_classifier.ShadowTraining, "_trained", counted)
    monkeypatch.setattr(click_classifier, "_kept", OrderedDict())
    quick = Learned(documents=500, trees=5)
    once = answer(quick, made.view).scores
    assert np.array_equal(answer(quick, made.view).scores, once)
    assert len(trained) == 1
    others = {
        "belief": made.view.knowledge.having(belief=replace(BELIEF, stop=BELIEF.stop / 2)),
        "noise": made.view.knowledge.having(noise=Gaussian(sigma=0.1).text),
    }
    for number, (what, knowledge) in enumerate(others.items()):
        answer(quick, replace(made.view, knowledge=knowledge))
        assert len(trained) == 2 + number, what
    moved = replace(made.view, parameters=made.view.parameters + 1)
    answer(quick, moved)
    assert len(trained) == 4
    click_classifier._kept.clear()
    assert np.array_equal(answer(quick, made.view).scores, once)
    assert len(trained) == 5


def test_the_same_bytes_with_one_thread_and_with_two(monkeypatch: pytest.MonkeyPatch) -> None:
    made, found = sent(FORMS["signs"]), []
    for threads in (1, 2):
        monkeypatch.setattr(click_classifier, "_kept", OrderedDict())  # trained anew
        with threadpool_limits(threads, user_api="openmp"), numba_threads(threads):
            found.append(answer(QUICK, made.view).scores)
    one, two = found
    assert one.any()
    assert np.array_equal(one, two)
    assert np.array_equal(one, np.round(one, 5)), "scores are rounded"
