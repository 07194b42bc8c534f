"""Attempts on secure aggregation: each comes out both ways, and the sums agree with plain integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.auditing.protocol_stress import key_attempts, share_attempts
from foltr_audit.auditing.protocol_stress.all_attempts import attempts, drawn_round
from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt
from foltr_audit.auditing.protocol_stress.staged_round import ShareHolders, StagedRound
from foltr_audit.errors import UsageError
from foltr_audit.privacy.secure_aggregation import FixedPoint, SecureSum
from foltr_audit.privacy.secure_aggregation.keys import Agreement

ENCODING = FixedPoint(bits=48, range=64.0, fraction=24)
CLIENTS, PARAMETERS = 24, 5


def stage_of(
    threshold: float = 0.5,
    *,
    masks: bool = True,
    agreement: Agreement = "none",
    seed: int = 1,
    once: bool = False,
    bind: bool = False,
) -> StagedRound:
    protocol = SecureSum(encoding=ENCODING, threshold=threshold, masks=masks, agreement=agreement)
    return drawn_round(protocol, CLIENTS, PARAMETERS, seed, once=once, bind=bind)


def code(stage: StagedRound, place: int) -> list[int]:
    """A client's integers, by Python's own arithmetic."""
    weight = int(stage.weights[place])
    return [round(float(value) * weight * 2**24) for value in stage.values[place]]


def test_the_truth_is_recognised_up_to_its_rounding_and_nothing_else() -> None:
    stage = stage_of()
    true = stage.values[stage.target] * stage.weights[stage.target]
    assert stage.reveals(true)
    assert stage.reveals(np.array(code(stage, stage.target)) / 2**24)
    assert not stage.reveals(true + np.eye(PARAMETERS)[0] * 2.0**-23)
    assert not stage.reveals(None)
    other = (stage.target + 1) % CLIENTS
    assert not stage.reveals(stage.values[other] * stage.weights[other])


@pytest.mark.parametrize("agreement", ["none", "x25519"])
def test_shares_that_clients_give_open_the_sum_that_the_protocol_finds(agreement: Agreement) -> None:
    """By asking for shares one by one, by the protocol's own recovery, and by integers without masks."""
    stage = stage_of(agreement=agreement)
    dropped = np.zeros(CLIENTS, dtype=np.bool_)
    dropped[[2, 7, 11]] = True
    words = ShareHolders(stage).total(~dropped, ~dropped)
    assert words is not None
    mine = (words & np.uint64(2**48 - 1)).tolist()
    run = stage.protocol.run(stage.values, stage.weights, stage.streams, after=dropped)
    assert run.total is not None
    assert mine == run.total.tolist()
    columns = zip(*(code(stage, place) for place in np.flatnonzero(~dropped).tolist()), strict=True)
    assert mine == [sum(column) % 2**48 for column in columns]


def test_a_round_with_too_few_answers_gives_no_sum() -> None:
    stage = stage_of()
    everybody = np.ones(CLIENTS, dtype=np.bool_)
    few = np.arange(CLIENTS) < CLIENTS // 3
    assert ShareHolders(stage).total(everybody, few) is None


def test_both_kinds_of_shares_open_a_message_and_one_kind_does_not() -> None:
    row = share_attempts.both_shares(stage_of())
    assert (row.outcome, row.with_answer, row.promised) == ("broken", "held", False)
    stage = stage_of()
    asked = ShareHolders(stage, one_kind=True)
    near = stage.neighbours(stage.target)
    assert asked.secret(stage.target, "pair", near) == stage.private(stage.target).private
    assert asked.secret(stage.target, "self", near) is None
    assert asked.secret(stage.target, "pair", near) is not None  # the same kind again is no harm
    payload = stage.result.payload[stage.target]
    key = stage.private(stage.target).private
    half = stage.decode(payload - stage.pair_masks(stage.target, key, near))
    assert not stage.reveals(half)  # the mask of the client's own seed is still on


@pytest.mark.parametrize("threshold", [0.2, 0.35, 0.45, 0.5, 0.6, 0.9])
def test_two_lists_succeed_just_where_twice_the_threshold_fits(threshold: float) -> None:
    stage = stage_of(threshold)
    fits = 2 * stage.needed <= stage.graph.degree
    row = share_attempts.split_lists(stage, half=False)
    assert (row.outcome, row.with_answer) == ("broken" if fits else "held", "held")
    assert share_attempts.split_lists(stage, half=True).outcome == "broken"


def test_a_replay_needs_another_list() -> None:
    stage = stage_of()
    row = share_attempts.replay(stage)
    assert (row.outcome, row.with_answer) == ("broken", "held")
    everybody = np.ones(CLIENTS, dtype=np.bool_)
    asked = ShareHolders(stage, one_kind=True)
    first, second = asked.total(everybody, everybody), asked.total(everybody, everybody)
    assert first is not None
    assert second is not None
    assert not stage.reveals(stage.decode(first - second))


@pytest.mark.parametrize("when", ["before keys", "after keys", "before unmasking"])
def test_drop_outs_show_nothing_single_unless_masks_are_off(when: share_attempts.DropStage) -> None:
    row = share_attempts.drop_out(stage_of(), when)
    assert (row.outcome, row.promised) == ("held", True)
    assert "is exact" in row.learnt
    assert share_attempts.drop_out(stage_of(masks=False), when).outcome == "broken"
    many = share_attempts.drop_out(stage_of(0.95), when)
    assert many.outcome == "held"
    assert many.learnt.startswith("the round aborts")


def test_looking_at_a_message_shows_it_without_masks_only() -> None:
    assert share_attempts.honest_look(stage_of()).outcome == "held"
    assert share_attempts.honest_look(stage_of(masks=False)).outcome == "broken"


@pytest.mark.parametrize("agreement", ["none", "x25519"])
def test_keys_of_the_server_open_a_message_unless_keys_are_signed(agreement: Agreement) -> None:
    row = key_attempts.impersonated_keys(stage_of(agreement=agreement))
    assert (row.outcome, row.with_answer) == ("broken", "held")


def test_a_signature_passes_for_the_client_that_made_it_only() -> None:
    stage = stage_of()
    public = stage.private(3).public
    assert key_attempts.verified(stage, 3, public)
    assert not key_attempts.verified(stage, 3, public, signer="server/sign")


def test_models_that_differ_leave_one_message_in_the_sum() -> None:
    row = key_attempts.inconsistent_models(stage_of())
    assert (row.outcome, row.with_answer) == ("broken", "held")
    stage = stage_of()
    assert stage.result.total is not None
    assert not stage.reveals(stage.decode(stage.result.total))  # with one model for all


def test_reused_seeds_cancel_word_for_word() -> None:
    stage = stage_of()
    row = key_attempts.seed_reuse(stage)
    assert (row.outcome, row.with_answer) == ("broken", "held")
    second = replace(stage, values=np.roll(stage.values, 1, axis=0))
    words = second.result.payload[stage.target] - stage.result.payload[stage.target]
    pairs = zip(code(second, stage.target), code(stage, stage.target), strict=True)
    assert (words & np.uint64(2**48 - 1)).tolist() == [(new - old) % 2**48 for new, old in pairs]


def test_a_short_seed_is_found_and_a_long_one_is_not() -> None:
    row, rate = key_attempts.short_seed(stage_of())
    assert (row.outcome, row.with_answer) == ("broken", "held")
    assert "2^32 tries" in row.learnt
    assert rate > 0


def test_counts_show_in_clear_and_not_behind_masks() -> None:
    row = key_attempts.clear_counts(stage_of())
    assert (row.outcome, row.with_answer) == ("broken", "held")
    assert key_attempts.clear_counts(stage_of(masks=False)).with_answer == "broken"


def test_all_attempts_keep_to_the_promise() -> None:
    tried = attempts(stage_of(seed=2)).attempts
    assert len({row.name for row in tried}) == len(tried)
    assert {row.outcome for row in tried if row.promised} == {"held"}
    assert all(row.answer and row.with_answer == "held" for row in tried if row.outcome == "broken")


@pytest.mark.parametrize(
    ("attempt", "refusal"),
    [
        (share_attempts.both_shares, "once"),
        (share_attempts.replay, "once"),
        (key_attempts.inconsistent_models, "bind"),
    ],
)
def test_clients_that_refuse_keep_a_promise_that_others_do_not_make(
    attempt: Callable[[StagedRound], ProtocolAttempt], refusal: str
) -> None:
    careful = attempt(stage_of(once=refusal == "once", bind=refusal == "bind"))
    assert (careful.outcome, careful.promised, careful.answer) == ("held", True, None)
    other = attempt(stage_of(once=refusal == "bind", bind=refusal == "once"))
    assert (other.outcome, other.promised, other.with_answer) == ("broken", False, "held")


def test_a_round_that_cannot_be_is_refused() -> None:
    protocol = SecureSum(encoding=ENCODING, threshold=30)
    for clients, parameters in ((3, 5), (20, 0), (20, 5)):
        with pytest.raises(UsageError, match=r"--clients|--parameters"):
            drawn_round(protocol, clients, parameters, 0)


def test_survivors_that_fall_apart_get_no_sum() -> None:
    """On a circle of two neighbours each, four lost clients that do not all sit side by side break it."""
    protocol = SecureSum(encoding=ENCODING, neighbours=2, threshold=0.1)
    reasons = set()
    for seed in range(20):
        stage = drawn_round(protocol, 40, 3, seed)
        row = share_attempts.drop_out(stage, "after keys")
        assert row.outcome == "held"
        lost = np.zeros(40, dtype=np.bool_)
        lost[[place for place in range(40) if place != stage.target][:4]] = True
        run = stage.protocol.run(stage.values, stage.weights, stage.streams, after=lost)
        assert (run.aborted is not None) == row.learnt.startswith("the round aborts")
        reasons.add(row.learnt[:9])
    assert "the round" in reasons
