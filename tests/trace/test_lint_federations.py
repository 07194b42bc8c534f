"""What lint says of federations such as Flower's: each fault is found, and its mended twin is clean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from foltr_audit.recorder.messages import KEY_SHARES, SEED_SHARES

from foltr_audit.core.records.cohort import Cohort
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Floats
from tests.fixtures.lint_traces import (
    DATASET,
    MESSAGES,
    ROUNDS,
    P,
    done_with,
    found_in,
    header_of,
    only,
    outcome,
    played,
    record_of,
    updates,
)

BARE = header_of(dtype="float32", noise=None, defense=["none"])


def with_facts(header: TraceHeader, **facts: Any) -> TraceHeader:
    """A header of another system with more facts."""
    return replace(header, knowledge={**header.knowledge, **facts}, spec_hash="")


# --- 32-bit seeds ---------------------------------------------------------------------------------

MASKED = TraceHeader(
    kind="masked",
    dtype="uint64",
    parameters=P,
    k=3,
    dataset=DATASET,
    has_truth=False,
    knowledge={"of": "model", "bits": 32, "fraction": 16, "range": 8.0},
)


def masked_rounds(header: TraceHeader, **fields: Any) -> list[RoundRecord]:
    """Rounds of uniform words modulo 2^32."""
    words = [
        np.random.default_rng([4, r]).integers(0, 2**32, (MESSAGES, P), dtype=np.uint64)
        for r in range(ROUNDS)
    ]
    return [record_of(header, r, np.zeros((MESSAGES, P)), messages=words[r], **fields) for r in range(ROUNDS)]


def test_masks_from_seeds_of_32_bits_are_found() -> None:
    faulty = with_facts(MASKED, mask_seed_bits=32)
    finding = only(found_in(faulty, masked_rounds(faulty)), "mask-seeds")
    assert "a seed of 32 bits, and 128 are needed" in finding.text
    assert finding.messages == MESSAGES * ROUNDS
    assert "shares with others" in finding.text
    assert "confirms a guess" not in finding.text
    secagg = {"clipping_range": 8.0, "quantization_range": 2**22, "modulus_bits": 32, "max_weight": 1.0}
    flower = with_facts(
        replace(faulty, parameters=P - 1), masking="flower-secagg", num_shares=3, **secagg
    )  # the weight is the first word
    model = np.zeros(P - 1)
    finding = only(found_in(flower, masked_rounds(flower, parameters=model, aggregate=model)), "mask-seeds")
    assert "shares with 2 others" in finding.text
    assert "confirms a guess" in finding.text
    assert outcome(done_with(faulty, masked_rounds(faulty)), "unmasked").state == "clean"


def test_masks_from_long_seeds_are_clean() -> None:
    mended = with_facts(MASKED, mask_seed_bits=128)
    assert outcome(done_with(mended, masked_rounds(mended)), "mask-seeds").state == "clean"


def test_seeds_of_unknown_length_are_not_called_clean() -> None:
    unknown = outcome(done_with(MASKED, masked_rounds(MASKED)), "mask-seeds")
    assert (unknown.state, unknown.applies) == ("not looked", True)
    assert "mask_seed_bits" in (unknown.reason or "")
    assert not outcome(done_with(BARE, played(BARE)), "mask-seeds").applies


# --- metrics in clear -----------------------------------------------------------------------------


def test_metrics_that_differ_beside_masked_messages_are_found() -> None:
    clicks = np.arange(MESSAGES) % 4
    finding = only(
        found_in(MASKED, masked_rounds(MASKED, clear={"clicks": clicks.astype(np.float64)})), "clear-metrics"
    )
    assert "clear beside masked messages" in finding.text
    assert "clicks (0 to 3)" in finding.text
    assert (finding.rounds, finding.messages, finding.share) == (ROUNDS, MESSAGES * ROUNDS, 1.0)


def test_the_same_metric_from_all_clients_is_a_note() -> None:
    clear = {"num-examples": np.ones(MESSAGES)}
    finding = only(found_in(MASKED, masked_rounds(MASKED, clear=clear)), "clear-metrics", "note")
    assert "the same from all clients of a round: num-examples" in finding.text
    assert outcome(done_with(MASKED, masked_rounds(MASKED)), "clear-metrics").state == "clean"


def test_a_metric_that_only_some_clients_send_tells_them_apart() -> None:
    loss = np.where(np.arange(MESSAGES) < 3, np.nan, 0.5)
    finding = only(found_in(BARE, played(BARE, clear={"loss": loss})), "clear-metrics")
    assert "loss (0.5 to 0.5)" in finding.text


def test_a_client_that_failed_sent_no_other_metric() -> None:
    arrived = np.arange(MESSAGES) != 2
    clear = {"num-examples": np.where(arrived, 1.0, np.nan)}
    rounds = [replace(record, survivors=arrived) for record in played(BARE, clear=clear)]
    assert only(found_in(BARE, rounds), "clear-metrics", "note").rounds == ROUNDS


def test_metrics_that_differ_between_rounds_only_reveal_nothing_about_a_client() -> None:
    rounds = [
        replace(record, clear={"step": np.full(MESSAGES, float(r))}) for r, record in enumerate(played(BARE))
    ]
    assert only(found_in(BARE, rounds), "clear-metrics", "note").messages == MESSAGES * ROUNDS


# --- shares of both secrets -----------------------------------------------------------------------


def answers(seeds: list[int], keys: list[int]) -> Cohort:
    """A cohort whose shares were answered: of the seeds of some nodes, of the keys of others."""
    nodes = [2**64 - 1, *seeds, *keys]  # node numbers of Flower fill 64 bits
    return Cohort(
        node=np.array(nodes, dtype=np.uint64),
        outcome=("arrived",) * len(nodes),
        reason=("",) * len(nodes),
        stage=("", *(SEED_SHARES,) * len(seeds), *(KEY_SHARES,) * len(keys)),
    )


def test_shares_of_both_secrets_of_a_client_are_found() -> None:
    rounds = masked_rounds(MASKED, cohort=answers([2**63 + 5, 6, 7], [7, 8]))
    finding = only(found_in(MASKED, rounds), "both-shares")
    assert f"both secrets of {ROUNDS} clients, of {4 * ROUNDS} " in finding.text
    assert finding.example == "round 0, node 7"


def test_seeds_of_those_who_sent_and_keys_of_those_who_did_not_are_clean() -> None:
    rounds = masked_rounds(MASKED, cohort=answers([2**63 + 5, 6, 7], [8]))
    assert outcome(done_with(MASKED, rounds), "both-shares").state == "clean"


def test_answers_that_are_not_recorded_are_named() -> None:
    first, *others = masked_rounds(MASKED)
    first = replace(first, cohort=answers([6], [7]))
    gap = outcome(done_with(MASKED, [first, *others]), "both-shares")
    assert gap.in_part
    assert gap.gaps[0].part == f"{ROUNDS - 1} rounds of {ROUNDS}"


# --- sensitivity ----------------------------------------------------------------------------------

LOCAL: dict[str, Any] = {"local_dp_clip": 0.1, "local_dp_eps": 1.0, "local_dp_delta": 1e-5}


def test_a_sensitivity_below_twice_the_clip_is_found() -> None:
    faulty = with_facts(BARE, claimed_sensitivity=0.1, **LOCAL)
    faulty = replace(faulty, knowledge={k: v for k, v in faulty.knowledge.items() if k != "defense"})
    finding = only(found_in(faulty, played(faulty)), "sensitivity")
    assert "computed for a sensitivity of 0.1, but two messages differ by up to 2 R = 0.2" in finding.text
    assert "compute the noise from 0.2" in finding.text
    mended = replace(faulty, knowledge={**faulty.knowledge, "claimed_sensitivity": 0.2})
    assert outcome(done_with(mended, played(mended)), "sensitivity").state == "clean"


def test_a_sensitivity_without_a_clip_is_not_judged() -> None:
    alone = with_facts(BARE, claimed_sensitivity=0.1)
    assert outcome(done_with(alone, played(alone)), "sensitivity").is_missing
    assert not outcome(done_with(BARE, played(BARE)), "sensitivity").applies


# --- noise of the server --------------------------------------------------------------------------


def averaged(header: TraceHeader, sigma: float, changes: Floats | None = None) -> list[RoundRecord]:
    """Rounds whose next model is the average of the messages, plus normal noise of the server."""
    rounds = []
    for r in range(ROUNDS):
        record = record_of(header, r, updates(r) if changes is None else changes)
        noise = sigma * np.random.default_rng([5, r]).normal(size=P)
        mean = record.messages.astype(np.float64).mean(axis=0)
        rounds.append(replace(record, aggregate=mean + noise))
    return rounds


SERVER_NOISE = ["noised-sum:sigma=0.5,bands=1"]


def test_noise_of_the_server_alone_leaves_messages_bare() -> None:
    faulty = header_of(dtype="float32", noise=None, defense=["their-noise"], events=SERVER_NOISE)
    finding = only(found_in(faulty, averaged(faulty, 0.01)), "server-noise")
    assert "leaves every single message bare" in finding.text
    # 60 draws of a deviation of 0.01: the root mean square lies within 40 % of it but for one in 1e7.
    measured = float(finding.text.partition("by ")[2].partition(" a coordinate")[0].rpartition(" ")[2])
    assert 0.006 < measured < 0.014


def test_noise_of_the_clients_covers_their_messages() -> None:
    events = ["noised:laplace:scale=2.5", *SERVER_NOISE]
    mended = header_of(dtype="float32", defense=["theirs"], events=events)
    assert outcome(done_with(mended, averaged(mended, 0.01)), "server-noise").state == "clean"


def test_a_model_that_is_no_average_is_a_note_where_nothing_is_declared() -> None:
    note = only(found_in(BARE, averaged(BARE, 0.01)), "server-noise", "note")
    assert note.rounds == ROUNDS
    assert outcome(done_with(BARE, averaged(BARE, 0.0)), "server-noise").state == "clean"
    adam = with_facts(BARE, optimiser="adam")
    assert outcome(done_with(adam, averaged(adam, 0.01)), "server-noise").state == "clean"


def test_a_model_that_is_not_recorded_is_a_gap() -> None:
    rounds = [replace(record, aggregate=np.full(P, np.nan)) for record in averaged(BARE, 0.01)]
    assert outcome(done_with(BARE, rounds), "server-noise").in_part


# --- zero updates ---------------------------------------------------------------------------------


def failed(*reasons: str) -> Cohort:
    """A cohort of two nodes that answered, and one that failed for each reason."""
    count = len(reasons)
    return Cohort(
        node=np.arange(2 + count, dtype=np.uint64),
        outcome=("arrived", "arrived", *("failed",) * count),
        reason=("", "", *reasons),
        stage=("",) * (2 + count),
    )


def test_a_clip_that_divides_by_zero_shows_who_learnt_nothing() -> None:
    # As Flower 1.41 tells the server, of a virtual node.
    division = "code 2: ... \nException ClientAppException occurred. Message: float division by zero'>"
    found = found_in(BARE, played(BARE, cohort=failed(division, "out of memory")))
    finding = only(found, "silent")
    assert f"{ROUNDS} clients failed with a division by zero" in finding.text
    assert finding.example == "round 0, node 2"
    note = next(found for found in found if found.check == "clear-fields" and "had no answer" in found.text)
    assert f"{2 * ROUNDS} requests to clients, of {4 * ROUNDS}, had no answer" in note.text


def test_other_failures_show_no_silent_client() -> None:
    assert outcome(done_with(BARE, played(BARE, cohort=failed("out of memory"))), "silent").state == "clean"
    assert outcome(done_with(BARE, played(BARE, cohort=failed())), "silent").state == "clean"


# --- who knows the lists --------------------------------------------------------------------------


def test_lists_of_the_auditor_are_not_called_known_to_the_server() -> None:
    lists: dict[str, Any] = {name: np.zeros(1, dtype=np.int64) for name in ("slot", "step", "part", "query")}
    lists["shown"] = np.array([[2, 0, 1]])
    for known, told in (("server", "known to the server"), ("auditor", "this server does not have them")):
        header = with_facts(BARE, lists_known=known)
        notes = [found for found in found_in(header, played(header, **lists)) if found.severity == "note"]
        assert any(told in note.text for note in notes), notes
