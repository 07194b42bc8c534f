"""Telling intents: likelihoods by brute force, calibration, what noise hides, and several messages of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from foltr_audit.attacks.intent_inference import IntentInference
from scipy.special import logsumexp, softmax

from foltr_audit.core.plugins import Attack, Ball, Inference, IntentAttack, View
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.inference.joint_search import joint_clicks
from foltr_audit.inference.pattern_decoder import PatternDecoder, noise_law, patterns_as_clicks
from foltr_audit.inference.replay import Replay
from foltr_audit.judge.intents import (
    IntentEvidence,
    message_intents,
)
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.protocol import judge
from foltr_audit.privacy.noise import GammaShare, Gaussian, NoiseLaw
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.client_recordings import DATA, recorded, reordered
from tests.fixtures.tiny import BELIEF, clicks_view, cut, view
from tests.inference import test_pattern_decoder as decoder
from tests.inference.test_pattern_decoder import (
    SETTINGS,
    gradients,
    known,
    lists,
    plain_likelihoods,
    walk_down,
)

ATTACK = IntentInference()
NOISE = GammaShare(n=3, scale=0.6)
K = 5


def answer(seen: View, attack: IntentInference = ATTACK) -> tuple[Inference, Floats]:
    """What the attack says, and its log likelihoods of the intents."""
    said = decoder.answer(attack, seen)
    assert said.answer is not None
    return said, said.answer


def judged(
    recording: MemoryRoundStore, *attacks: IntentAttack, hidden: tuple[str, ...] = ()
) -> IntentEvidence:
    observer = Observer(recording.header, DATA, frozenset(hidden))
    found = judge(recording, observer, attacks or [ATTACK], Streams(1)).found["intent"]
    assert isinstance(found, IntentEvidence)
    return found


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "update"])
@pytest.mark.parametrize("law", [NOISE, Gaussian(sigma=0.8)], ids=["share", "gaussian"])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_posteriors_equal_brute_force(pairs: str, normaliser: str, law: NoiseLaw, kind: str) -> None:
    """All intents, all patterns: pair by pair, read by read, density by density."""
    knowledge = known(pairs, normaliser, Ball(norm=1.2), law).having(
        belief=BELIEF, intents=True, click_model="perfect"
    )
    lengths, prior = [1, 2, 3, 5, 0, 4], np.array([0.5, 0.25, 0.25])
    seen = lists(lengths, knowledge, seed=3, kind=kind, k=K)
    grades = np.random.default_rng(8).integers(0, 3, size=(*seen.shown.shape, 3))
    seen = replace(seen, intent_labels=np.where(seen.is_document[..., np.newaxis], grades, -1))
    said, likely = answer(seen, IntentInference(shares="2/1/1"))
    for i, length in enumerate(lengths):
        step, moved = gradients(seen, i)
        fit = plain_likelihoods(seen, i, step, moved, law)
        bits = patterns_as_clicks(np.arange(2**length), K)
        evidence, clicked = np.empty(3), np.empty((3, K))
        for intent in range(3):
            mine = grades[i, 0, :, intent]
            weighed = fit + np.log(walk_down(BELIEF.click[mine], BELIEF.stop[mine], length))
            evidence[intent], clicked[intent] = logsumexp(weighed), softmax(weighed) @ bits
        np.testing.assert_allclose(likely[i], evidence - evidence.max(), rtol=1e-6, atol=1e-7)
        posterior = softmax(evidence + np.log(prior))
        np.testing.assert_allclose(said.scores[i, 0], posterior @ clicked, rtol=1e-5, atol=1e-9)
    assert np.ptp(likely[[1, 2, 3, 5]], axis=1).max() > 0.05, "messages say something of intents"
    assert not likely[4].any(), "no list, nothing to say"


def test_clicks_that_arrive_in_clear_are_weighed_by_the_click_model() -> None:
    seen = clicks_view(20, 3)
    _, likely = answer(seen)
    assert seen.intent_labels is not None
    clicks = seen.messages.reshape(seen.shown.shape) > 0
    for i in range(len(seen)):
        evidence = np.zeros(2)
        for b, intent in np.ndindex(3, 2):
            length = int(seen.is_document[i, b].sum())
            mine = seen.intent_labels[i, b, :, intent]
            chances = walk_down(BELIEF.click[mine], BELIEF.stop[mine], length)
            evidence[intent] += np.log(chances[int(clicks[i, b] @ (1 << np.arange(10)))])
        np.testing.assert_allclose(likely[i], evidence - evidence.max(), atol=1e-9)


@pytest.mark.parametrize("sweeps", [0, 1])
def test_of_several_lists_each_is_weighed_with_the_others_as_found(sweeps: int, setup_of: SetupOf) -> None:
    """Every pattern of a list replayed, later steps as they were, against the density of what is left."""
    recording = recorded(setup_of, rounds=1, intents=[0, 1] * 3, sizes=(2,), noise_clients=5)
    (seen,) = Observer(recording.header, DATA).views(recording.records[0])
    here, belief = seen.view, seen.view.knowledge.belief
    assert here.intent_labels is not None
    assert belief is not None
    law, replay = noise_law(here.knowledge), Replay(here)
    assert isinstance(law, GammaShare)
    clicks = joint_clicks(PatternDecoder(here), 4, sweeps)
    expected = np.zeros((len(here), 2))
    for i, b in np.ndindex(len(here), 2):
        path = replay.paths(np.array([i]), clicks[[i]])
        length = int(here.is_document[i, b].sum())
        patterns = patterns_as_clicks(np.arange(2**length), here.shown.shape[2])
        starts = np.tile(path[b], (len(patterns), 1))
        ends = replay.step(starts, np.full(len(patterns), i), b, patterns) + path[-1] - path[b + 1]
        fit = law.log_density(here.models[i] - ends).sum(axis=1)
        for intent in range(2):
            grades = here.intent_labels[i, b, :length, intent]
            with np.errstate(divide="ignore"):
                prior = np.log(walk_down(belief.click[grades], belief.stop[grades], length))
            expected[i, intent] += logsumexp(fit + prior)
    _, likely = answer(here, IntentInference(shortlist=4, sweeps=sweeps))
    np.testing.assert_allclose(likely, expected - expected.max(axis=1, keepdims=True), rtol=1e-4, atol=1e-4)


def test_a_list_alone_in_its_message_is_weighed_alone_wherever_it_stands() -> None:
    one = cut(view(6), B=1)
    _, alone = answer(one)
    _, among_none = answer(cut(one, B=3))
    np.testing.assert_allclose(among_none, alone, atol=1e-9)


def test_a_message_that_no_intent_explains_says_nothing() -> None:
    seen = view(3)
    far = replace(seen, messages=np.full_like(seen.messages, 1e300))
    assert np.isfinite(answer(far)[1]).all()


# --- judging --------------------------------------------------------------------------------------


def test_the_order_of_clients_does_not_matter(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=[0, 1, 1] * 4)
    one, other = (judged(each).told["intent-inference"] for each in (recording, reordered(recording)))
    assert one.client.tolist() == other.client.tolist()
    assert one.probability.tobytes() == other.probability.tobytes()
    assert one.shown.tobytes() == other.shown.tobytes()


def test_messages_with_several_intents_are_left_out_and_counted(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=3, intents=[0, 1, 0, 1], sizes=(2,))
    truth = recording.truth[0]
    assert truth.intents is not None
    mixed = truth.intents.copy()
    mixed[0] = 1 - mixed[0]  # one of the first message's two lists
    recording.truth[0] = replace(truth, intents=mixed)
    changed = recording.truth[2]
    assert changed.intents is not None
    recording.truth[2] = replace(changed, intents=1 - changed.intents)  # in the third round all change
    two, three = IntentInference(messages=2), IntentInference(messages=3)
    found = judged(recording, ATTACK, two, three)
    one = found.told["intent-inference"]
    assert (one.intent.size, one.mixed, one.left_over) == (11, 1, 0)
    assert (found.told[two.label].intent.tolist(), found.told[two.label].mixed) == ([1, 0, 1], 1)
    assert found.told[two.label].left_over == 4
    assert found.refused[three.label].startswith("several intents are behind each of 4 decisions")
    four = judged(recording, IntentInference(messages=4)).refused
    assert list(four.values()) == ["no client sent 4 messages; expected fewer in messages="]


def test_intents_of_messages() -> None:
    slot, intents = np.array([0, 0, 1, 1, 3]), np.array([2, 2, 0, 1, 0])
    assert message_intents(slot, 4, intents).tolist() == [2, -1, -1, 0]


def test_what_was_shown_is_counted_without_any_message(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1, 1])
    told = judged(recording).told["intent-inference"]
    (record,) = recording.records
    for i in range(3):
        rows = DATA.train.offsets[record.query[i]] + record.shown[i][record.shown[i] >= 0]
        counts = (DATA.train.grades[:, rows] > 0).sum(axis=1)
        expected = counts / counts.sum() if counts.sum() else np.full(2, 0.5)
        np.testing.assert_allclose(told.shown[i], expected)


def test_repetitions_add_up(setup_of: SetupOf) -> None:
    one = judged(recorded(setup_of, rounds=1, intents=[0, 1]))
    other = judged(recorded(setup_of, rounds=1, intents=[1, 0, 1], seed=3))
    both = join_pieces([one, other]).told["intent-inference"]
    assert both.intent.tolist() == [0, 1, 1, 0, 1]
    refused = join_pieces([one, replace(other, refused={"intent-inference": "why"})])
    assert (refused.told, refused.refused) == ({}, {"intent-inference": "why"})


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["intents", "relevance", "query"])
def test_without_grades_under_each_intent_it_is_refused(hidden: str, setup_of: SetupOf) -> None:
    found = judged(recorded(setup_of, rounds=1, intents=[0, 1]), hidden=(hidden,))
    assert "intents" in found.refused["intent-inference"]


def test_data_with_one_intent_are_refused(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1])
    single = replace(DATA, train=DATA.train.under(0), vali=DATA.vali.under(0), test=DATA.test.under(0))
    (record,), (truth,) = recording.records, recording.truth
    (seen,) = Observer(recording.header, single).views(record)
    assert seen.view.intent_labels is None
    assert str(ATTACK.why_not(seen.view)).startswith("the observer does not know: intents")
    untold = replace(recording, truth=[replace(truth, intents=None)])
    assert "does not hold the intents" in judged(untold).refused["intent-inference"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"belief": None}, "no cascade"),
        ({"learning_rate": None}, "learning_rate"),
        ({"pairs": "some"}, "unknown pairs"),
        ({"click_model": None}, "click_model"),
    ],
)
def test_what_it_cannot_weigh_is_refused(changes: dict[str, Any], word: str) -> None:
    seen = view(2)
    reason = ATTACK.why_not(replace(seen, knowledge=seen.knowledge.having(**changes)))
    assert reason is not None
    assert word in reason


def test_a_central_server_needs_no_settings_of_pdgd() -> None:
    seen = clicks_view(2)
    bare = seen.knowledge.having(learning_rate=None, pairs=None, normaliser=None)
    assert ATTACK.why_not(replace(seen, knowledge=bare)) is None


@pytest.mark.parametrize("shares", ["", "1/0", "1/nan", "1/-1", "a/b", "1/inf"])
def test_shares_that_are_none_are_refused(shares: str) -> None:
    with pytest.raises(PluginError, match="shares"):
        make(Attack, f"intent-inference:shares={shares}")


def test_shares_must_fit_the_intents() -> None:
    assert IntentInference(shares="1/2").why_not(view(2)) is None
    assert IntentInference(shares="1/2/3").why_not(view(2)) == "3 shares for 2 intents"
    np.testing.assert_allclose(IntentInference(shares="1/3").prior(2), [0.25, 0.75])


def test_without_truth_or_messages_nothing_is_scored(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=1, intents=[0, 1])
    with pytest.raises(UsageError, match="holds no truth"):
        judged(replace(recording, has_truth=False))
    with pytest.raises(UsageError, match="no message"):
        judged(replace(recording, records=[], truth=[]))


class Silent(IntentAttack):
    """Answers without likelihoods."""

    name = "toy-silent"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        nothing = np.zeros(view.shown.shape)
        return Inference(scores=nothing, guess=nothing > 0)


def test_an_answer_without_likelihoods_is_an_error(setup_of: SetupOf) -> None:
    with pytest.raises(PluginError, match="log likelihood for each intent"):
        judged(recorded(setup_of, rounds=1, intents=[0, 1]), Silent())
