"""Learned: what it reads where likelihoods do not fit, and that its trees are the same anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.attacks.learned import Learned
from foltr_audit.attacks.maximum_posterior import MaximumPosterior
from foltr_audit.attacks.olsr import OLSR
from sklearn.metrics import roc_auc_score

from foltr_audit.core.plugins import Attack, View
from foltr_audit.inference import click_classifier
from foltr_audit.inference.shadow_messages import MessageForm, Shadows, shadow_messages
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.utils.arrays import Floats
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


def test_messages_of_other_clicks_tell_nothing() -> None:
    """Each list with the message of another one, whose documents are others."""
    made = sent(FORMS["whole"])
    other = replace(made.view, messages=np.roll(made.view.messages, 1, axis=0))
    knowledge = made.view.knowledge.having(belief=None)
    scores = answer(QUICK, replace(other, knowledge=knowledge)).scores
    here = made.view.is_document
    each = [
        roc_auc_score(clicks[it], score[it])
        for clicks, score, it in zip(made.clicks, scores, here, strict=True)
        if 0 < clicks[it].sum() < it.sum()
    ]
    assert len(each) > 200
    assert abs(np.mean(each) - 0.5) < 4 * np.std(each) / np.sqrt(len(each))


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


PROGRAM = """
import sys
from threadpoolctl import threadpool_limits
from tests.attacks.test_learned import FORMS, QUICK, answer, sent
with threadpool_limits(int(sys.argv[1]), user_api="openmp"):
    scores = answer(QUICK, sent(FORMS["signs"]).view).scores
sys.stdout.buffer.write(scores.tobytes())
"""


def test_the_same_bytes_with_one_thread_and_with_two() -> None:
    def bytes_with(threads: int) -> Floats:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(threads)], capture_output=True, check=True, env=environment
        )
        return np.frombuffer(done.stdout)

    one, two = bytes_with(1), bytes_with(2)
    assert one.any()
    assert np.array_equal(one, two)
    assert np.array_equal(one, np.round(one, 5)), "scores are rounded"
