"""Lint checks that need no noise law, the outcome of each check, and odd traces."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.recorder.messages import KEY_SHARES, SEED_SHARES, NodeOutcome

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.trace import Fact, TraceHeader, TraceWriter
from foltr_audit.trace.lint import CHECKS, LintResult, lint
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import (
    LAPLACE,
    MESSAGES,
    ROUNDS,
    P,
    done_with,
    found_in,
    header_of,
    leaks,
    only,
    outcome,
    played,
    record_of,
)
from tests.fixtures.rounds import without_messages

KINDS = pytest.mark.parametrize("kind", ["model", "update"])

BARE = header_of(dtype="float32", noise=None, defense=["none"])
ENCODING: dict[str, Fact] = {"of": "model", "bits": 32, "fraction": 16, "range": 8.0}
MASKED = replace(header_of(), kind="masked", dtype="uint64", knowledge=ENCODING, spec_hash="")


def written(folder: Path, header: TraceHeader, rounds: list[RoundRecord]) -> Path:
    with TraceWriter(folder, header) as writer:
        for record in rounds:
            writer.write(record)
    return folder


def with_facts(header: TraceHeader, **facts: Any) -> TraceHeader:
    """A header of another system with more facts."""
    return replace(header, knowledge={**header.knowledge, **facts}, spec_hash="")


def masked_rounds(header: TraceHeader, **fields: Any) -> list[RoundRecord]:
    """Rounds of uniform words modulo 2^32."""
    rngs, zeros = (np.random.default_rng([4, r]) for r in range(ROUNDS)), np.zeros((MESSAGES, P))
    words = [rng.integers(0, 2**32, (MESSAGES, P), dtype=np.uint64) for rng in rngs]
    return [record_of(header, r, zeros, messages=words[r], **fields) for r in range(ROUNDS)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@KINDS
def test_whole_noise_per_client_is_clean(tmp_path: Path, kind: str, dtype: str) -> None:
    header = header_of(kind, dtype)
    done = lint(written(tmp_path / "trace", header, played(header)))
    assert done.findings == ()
    assert (done.rounds, done.messages, done.leaks) == (ROUNDS, ROUNDS * MESSAGES, 0)
    assert {check.name for check in done.checks if not check.applies} == {"mask-seeds", "both-shares"}
    assert all(check.state == "clean" for check in done.checks if check.applies), done.checks
    assert done.clean
    assert [check.name for check in done.checks] == [check.name for check in CHECKS]


# --- fields in clear ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "defense", "severity"),
    [
        (LAPLACE, ["laplace:eps=1,sensitivity=2.5"], None),
        (None, ["none"], "leak"),
        (None, ["clip:norm=1.5"], "leak"),
        (None, ["top-k:k=5"], "leak"),
        ("none", None, "leak"),
        (None, ["click-rr:eps=1"], "note"),
        (None, None, "note"),
    ],
)
def test_a_payload_in_clear_is_caught(noise: str | None, defense: list[str] | None, severity: str) -> None:
    header = header_of(noise=noise, defense=defense)
    header = header if noise != "none" else replace(header, knowledge={"noise": "none"})
    found = found_in(header, played(header, lambda _, learnt, __: learnt + lint_traces.noise_of(LAPLACE, 0)))
    assert {f.severity for f in found if f.check == "clear-fields"} == ({severity} if severity else set())


def test_lists_features_and_lost_messages_are_noted() -> None:
    header = replace(header_of(), embeds_features=True)
    survivors = np.ones(MESSAGES, dtype=np.bool_)
    survivors[6] = False
    rows = np.arange(MESSAGES)
    lists: dict[str, Any] = {"slot": rows, "step": 0 * rows, "part": 0 * rows, "query": rows}
    shown, features = np.tile(np.arange(3), (MESSAGES, 1)), np.ones((MESSAGES, 3, 2), dtype=np.float32)
    rounds = played(header, survivors=survivors, shown=shown, features=features, **lists)
    found = found_in(header, rounds)
    assert leaks(found) == set()
    texts = [f.text for f in found if f.check == "clear-fields"]
    assert len(texts) == 2
    assert "with the documents' features" in texts[0]
    assert "3 messages did not enter" in texts[1]
    assert not found_in(header_of(), played(header_of()))


def failed(*reasons: str) -> list[NodeOutcome]:
    """A cohort of two nodes that answered, and one that failed for each reason."""
    return [
        *(NodeOutcome(node=node, outcome="arrived") for node in (0, 1)),
        *(NodeOutcome(node=node, outcome="failed", reason=text) for node, text in enumerate(reasons, 2)),
    ]


def test_requests_without_an_answer_are_noted() -> None:
    cohort = failed("division by zero", "out of memory")
    (note,) = [each for each in found_in(BARE, played(BARE, cohort=cohort)) if "no answer" in each.text]
    assert (note.check, note.severity) == ("clear-fields", "note")
    assert f"{2 * ROUNDS} requests to clients, of {4 * ROUNDS}, had no answer" in note.text


def test_lists_of_the_auditor_are_not_called_known_to_the_server() -> None:
    lists: dict[str, Any] = {name: np.zeros(1, dtype=np.int64) for name in ("slot", "step", "part", "query")}
    lists["shown"] = np.array([[2, 0, 1]])
    for known, told in (("server", "known to the server"), ("auditor", "this server does not have them")):
        header = with_facts(BARE, lists_known=known)
        notes = [found for found in found_in(header, played(header, **lists)) if found.severity == "note"]
        assert any(told in note.text for note in notes), notes


# --- metrics in clear -----------------------------------------------------------------------------


def test_metrics_that_differ_beside_masked_messages_are_found() -> None:
    clicks = np.arange(MESSAGES) % 4.0
    finding = only(found_in(MASKED, masked_rounds(MASKED, clear={"clicks": clicks})), "clear-metrics")
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
    steps = (np.full(MESSAGES, float(r)) for r in range(ROUNDS))
    rounds = [replace(record, clear={"step": step}) for record, step in zip(played(BARE), steps, strict=True)]
    assert only(found_in(BARE, rounds), "clear-metrics", "note").messages == MESSAGES * ROUNDS


# --- seeds of masks -------------------------------------------------------------------------------


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


def test_masks_from_long_seeds_are_clean() -> None:
    mended = with_facts(MASKED, mask_seed_bits=128)
    assert outcome(done_with(mended, masked_rounds(mended)), "mask-seeds").state == "clean"


def test_seeds_of_unknown_length_are_not_called_clean() -> None:
    unknown = outcome(done_with(MASKED, masked_rounds(MASKED)), "mask-seeds")
    assert (unknown.state, unknown.applies) == ("not looked", True)
    assert "mask_seed_bits" in (unknown.reason or "")
    assert not outcome(done_with(BARE, played(BARE)), "mask-seeds").applies


# --- shares of both secrets -----------------------------------------------------------------------


def answers(seeds: list[int], keys: list[int]) -> list[NodeOutcome]:
    """A cohort whose shares were answered: of the seeds of some nodes, of the keys of others."""
    # Node numbers of Flower fill 64 bits.
    stages = {"": [2**64 - 1], SEED_SHARES: seeds, KEY_SHARES: keys}
    return [
        NodeOutcome(node=node, outcome="arrived", stage=stage)
        for stage, nodes in stages.items()
        for node in nodes
    ]


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
    assert gap.looked_in_part
    assert gap.not_looked_at[0].part == f"{ROUNDS - 1} rounds of {ROUNDS}"


# --- what became of each check --------------------------------------------------------------------


def test_clean_is_said_only_of_what_was_looked_at() -> None:
    told = {check.name: check for check in done_with(MASKED, masked_rounds(MASKED)).checks}
    assert {name: check.state for name, check in told.items()} == {
        **dict.fromkeys(("clear-metrics", "clear-fields"), "clean"),
        **dict.fromkeys(("reused-noise", "weak-noise", "mask-seeds", "both-shares"), "not looked"),
    }
    assert [name for name, check in told.items() if check.looked_in_part] == ["reused-noise", "both-shares"]
    assert [name for name, check in told.items() if check.is_missing] == ["weak-noise", "mask-seeds"]
    (gap,) = told["reused-noise"].not_looked_at
    assert (gap.part, gap.why) == ("noise below the masks", "masked messages hold integers")


def test_what_is_not_in_a_trace_is_no_gap() -> None:
    header = header_of(noise=None, defense=["click-rr:eps=1"], events=["randomised-clicks:eps=1"])
    done = done_with(header, played(header, lambda _, learnt, __: learnt))
    told = {check.name: check.reason for check in done.checks if not check.applies}
    assert told == {
        "weak-noise": "the header declares no noise",
        **dict.fromkeys(("mask-seeds", "both-shares"), "messages are not masked"),
    }
    assert done.clean


def test_a_header_that_is_silent_about_noise_is_no_clean_one() -> None:
    header = header_of(noise=None)
    done = done_with(header, played(header_of()))
    weak = outcome(done, "weak-noise")
    assert (weak.reason, weak.is_missing) == ("the header declares no noise law", True)
    assert not done.clean


def test_rounds_without_messages_are_counted() -> None:
    header = header_of()
    rounds = played(header)
    bare = without_messages(rounds[1])
    done = done_with(header, [rounds[0], bare, rounds[2]])
    assert (done.rounds, done.rounds_without_messages) == (2, 1)
    empty = done_with(header, [bare])
    assert {check.reason for check in empty.checks if check.applies} == {"no message is recorded"}
    assert not empty.clean


def test_messages_that_are_no_models_are_not_compared() -> None:
    header = replace(header_of("update", noise=None, defense=[]), kind="es", knowledge={"width": P})
    seeds = np.arange(MESSAGES, dtype=np.uint64)
    changes = lint_traces.updates(0)
    done = done_with(header, [record_of(header, 0, changes, seeds=seeds, state=np.empty(0))])
    assert outcome(done, "reused-noise").reason == "messages of kind es are no models"
    assert outcome(done, "clear-metrics").state == "clean"


@pytest.mark.parametrize("bits", [24, 48, 64])
def test_masked_messages_that_come_again_are_caught(tmp_path: Path, bits: int) -> None:
    facts = {**ENCODING, "bits": bits, "defense": ["secure-aggregation"]}
    header = replace(MASKED, knowledge=facts, spec_hash="00")
    rng, high = np.random.default_rng(8), np.uint64(2**bits - 1)
    masks = [rng.integers(0, high, size=(MESSAGES, P), dtype=np.uint64, endpoint=True) for _ in range(ROUNDS)]

    def rounds(values: list[Any]) -> list[RoundRecord]:
        pairs = zip(played(header_of()), values, strict=True)
        return [replace(record, messages=value) for record, value in pairs]

    assert lint(written(tmp_path / "masked", header, rounds(masks))).findings == ()
    again = lint(written(tmp_path / "again", header, rounds([masks[0]] * ROUNDS)))
    assert leaks(again.findings) == {"reused-noise"}


# --- odd traces -----------------------------------------------------------------------------------


def test_nothing_to_look_at_is_no_leak(tmp_path: Path) -> None:
    header = header_of()
    assert lint(written(tmp_path / "empty", header, [])).rounds == 0
    nobody = without_messages(record_of(header, 0, np.ones((1, P))))
    assert lint(written(tmp_path / "nobody", header, [nobody])).findings == ()


def _lint_one(folder: Path, header: TraceHeader, changes: Floats) -> LintResult:
    return lint(written(folder, header, [record_of(header, 0, changes)]))


def test_one_message_and_one_coordinate(tmp_path: Path) -> None:
    header = header_of(parameters=1)
    assert _lint_one(tmp_path / "one", header, np.array([[1.7]])).findings == ()
    assert _lint_one(tmp_path / "zero", header, np.zeros((1, 1))).findings == ()


@KINDS
def test_numbers_at_the_end_of_the_range_crash_nothing(tmp_path: Path, kind: str) -> None:
    for size in (1.7e308, 5e-324):
        _lint_one(tmp_path / str(size), header_of(kind), size * np.sign(lint_traces.updates(0)))
    header = header_of(kind, "float32")
    record = record_of(header, 0, lint_traces.updates(0), parameters=np.full(P, 1e300))
    lint(written(tmp_path / "far", header, [record]))


def test_odd_knowledge_is_survived(tmp_path: Path) -> None:
    odd: dict[str, tuple[Fact, ...]] = {"noise": (3.0, "laplace:scale=nan", ""), "defense": ("home-made", [])}
    for name, value in [(name, value) for name, values in odd.items() for value in values]:
        header = replace(header_of(), knowledge={name: value})
        assert lint(written(tmp_path / f"{name} {value}", header, played(header))).rounds == ROUNDS


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    header = header_of()
    rounds = played(header)
    messages = np.array(rounds[1].messages, dtype=np.float64)
    messages[6, 2] = value
    rounds[1] = replace(rounds[1], messages=messages)
    with pytest.raises(TraceError, match="round 1, message 6: holds a value that is not finite"):
        lint(written(tmp_path / "trace", header, rounds))


def test_a_damaged_trace_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "trace", header_of(), played(header_of()))
    part = folder / "observed" / "messages-00000.npz"
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(TraceError, match=r"messages-00000\.npz"):
        lint(folder)
    shutil.rmtree(folder / "observed")
    with pytest.raises(TraceError):
        lint(folder)
    with pytest.raises(UsageError, match="no such folder"):
        lint(tmp_path / "nowhere")
