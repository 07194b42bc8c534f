"""What became of each check: found, clean, or not looked, and what was not looked at."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.trace import TraceHeader
from foltr_audit.trace.lint import CHECKS, CoverageGap, LintOutcome, LintResult
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import LAPLACE, MESSAGES, P, done_with, header_of, leaks, outcome, played

LAST = [f"noised:{LAPLACE}"]


def parts_of(done: LintResult, check: str) -> list[str]:
    return [gap.part for gap in outcome(done, check).gaps]


def states(done: LintResult) -> dict[str, str]:
    return {each.name: each.state for each in done.outcomes}


# --- one check ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "state", "in_part", "missing"),
    [
        ({}, "clean", False, False),
        ({"found": True}, "found", False, False),
        ({"reason": "no law"}, "not looked", False, True),
        ({"reason": "no masks", "applies": False}, "not looked", False, False),
        ({"gaps": (CoverageGap(part="half", why="few"),)}, "not looked", True, False),
        ({"gaps": (CoverageGap(part="half", why="few"),), "found": True}, "found", True, False),
    ],
)
def test_clean_is_said_only_of_what_was_looked_at(
    fields: dict[str, Any], state: str, in_part: bool, missing: bool
) -> None:
    told = LintOutcome(name="toy", tells="nothing", **fields)
    assert (told.state, told.in_part, told.is_missing) == (state, in_part, missing)
    assert (told.row.state, told.row.looked_in_part) == (state, in_part)
    assert told.row.plain()["not_looked_at"] == [{"part": "half", "why": "few"}] * bool(fields.get("gaps"))


def test_a_trace_is_clean_only_if_all_that_applies_was_looked_at() -> None:
    clean, silent = (
        LintOutcome(name="a", tells="a"),
        LintOutcome(name="b", tells="b", applies=False, reason="no"),
    )
    missing, in_part = (
        LintOutcome(name="c", tells="c", reason="no"),
        LintOutcome(name="d", tells="d", gaps=(CoverageGap(part="x", why="y"),)),
    )

    def trace(*outcomes: LintOutcome) -> bool:
        fields: dict[str, Any] = {"rounds": 1, "rounds_without": 0, "messages": 1, "declared": None}
        return LintResult(**fields, findings=(), outcomes=outcomes).clean

    assert trace(clean, silent)
    assert not trace(clean, missing)
    assert not trace(clean, in_part)


# --- the chain, by its events, its names, or not at all ------------------------------------------


def test_a_law_without_a_chain_is_taken_as_added_last() -> None:
    header = dataclasses.replace(header_of(), knowledge={"noise": LAPLACE})
    done = done_with(header, played(header))
    assert done.clean
    assert leaks(done_with(header, played(header, lambda _, learnt, n: learnt + n / 2)).findings) == {
        "weak-noise",
        "reused-noise",
    }


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (["home-made"], "home-made after laplace:scale=2.5 may change a message"),
        (["laplace:eps=1,sensitivity=2.5", "home-made:x=1"], "home-made:x=1 after laplace:scale=2.5 may"),
        (["laplace:eps=1,sensitivity=2.5", "quantise:range=1,levels=9"], "quantise:range=1,levels=9 after"),
        (["home-made", "laplace:eps=1,sensitivity=2.5"], None),
        (["top-k:k=5", "gamma-laplace:eps=1,sensitivity=3"], None),
        (
            ["laplace:eps=1,sensitivity=2.5", "gaussian:sigma=1"],
            "the header's noise is laplace:scale=2.5, and",
        ),
    ],
)
def test_without_events_the_names_of_built_ins_are_read(chain: list[str], reason: str | None) -> None:
    header = header_of(defense=chain)
    told = outcome(done_with(header, played(header)), "weak-noise")
    assert told.reason is None if reason is None else str(told.reason).startswith(reason)


def test_a_name_that_is_not_known_is_no_proof_of_equal_numbers() -> None:
    """A defense that nothing is known of may make numbers equal: that is neither a leak nor clean."""
    header = header_of(defense=["home-made"])
    rounds = played(header, lambda _, learnt, noise: np.where(noise < 0.5, 0.0, learnt + noise))
    done = done_with(header, rounds)
    assert leaks(done.findings) == set()
    assert parts_of(done, "bit-equal") == ["equal numbers"]
    assert parts_of(done, "sparsity") == ["whether the pattern depends on clicks"]
    assert parts_of(done, "reused-noise") == [
        "messages that are equal bit for bit",
        "noise shared by messages that differ",
    ]
    assert not done.clean


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (LAST, None),
        (["opaque:home-made", *LAST], None),
        (["rounded:step=0.5,nearest", *LAST], None),
        (["noised:gamma-share:n=1,scale=2.5"], None),
        ([*LAST, "opaque:home-made"], "opaque:home-made after laplace:scale=2.5 may change a message"),
        ([*LAST, "rounded:step=0.5"], "rounded:step=0.5 after laplace:scale=2.5 may change a message"),
        ([*LAST, "resized:of=update,factor=1"], "resized:of=update,factor=1 after"),
        ([*LAST, "blurred:by=2"], "blurred:by=2 after laplace:scale=2.5 may change a message"),
        (["noised:gaussian:sigma=2"], "the header's noise is laplace:scale=2.5, and what is added last is"),
        ([], "what comes after laplace:scale=2.5 may change a message"),
    ],
)
def test_events_say_whether_noise_is_added_last(events: list[str], reason: str | None) -> None:
    """Whatever the defenses are called."""
    header = header_of(defense=["by-others"], events=events)
    told = outcome(done_with(header, played(header)), "weak-noise")
    assert told.reason is None if reason is None else str(told.reason).startswith(reason)


def test_events_alone_tell_the_law() -> None:
    header = dataclasses.replace(header_of(), knowledge={"events": LAST})
    done = done_with(header, played(header_of()))
    assert done.declared == "gamma-share:n=1,scale=2.5"  # Laplace noise as laws write it
    assert done.clean


def test_a_law_that_is_not_known_is_not_looked_at() -> None:
    header = header_of(noise="student:nu=3", events=["noised:student:nu=3"])
    done = done_with(header, played(header, lambda _, learnt, __: learnt + lint_traces.noise_of(LAPLACE, 0)))
    assert outcome(done, "weak-noise").reason == "the law student:nu=3 is not known here"
    assert parts_of(done, "reused-noise") == [
        "messages that are equal bit for bit",
        "noise shared by messages that differ",
    ]
    assert parts_of(done, "bit-equal") == ["equal numbers", "what the law leaves untouched"]


# --- nothing to look at ---------------------------------------------------------------------------


def test_what_is_not_in_a_trace_is_no_gap() -> None:
    header = header_of(noise=None, defense=["click-rr:eps=1"], events=["randomised-clicks:eps=1"])
    done = done_with(header, played(header, lambda _, learnt, __: learnt))
    told = {each.name: each.reason for each in done.outcomes if not each.applies}
    assert told == {
        "bit-equal": "the header declares no noise",
        "weak-noise": "the header declares no noise",
        "reused-seeds": "messages have no seeds",
        **dict.fromkeys(("unmasked", "mask-seeds", "both-shares"), "messages are not masked"),
        "sensitivity": "the header declares no sensitivity apart from a clip (fact claimed_sensitivity)",
    }
    assert done.clean


def test_a_header_that_is_silent_about_noise_is_no_clean_one() -> None:
    header = header_of(noise=None)
    done = done_with(header, played(header_of()))
    assert outcome(done, "weak-noise").reason == "the header declares no noise law"
    assert outcome(done, "weak-noise").is_missing
    assert not done.clean


def test_rounds_without_messages_are_counted() -> None:
    header = header_of()
    rounds = played(header)
    bare = dataclasses.replace(
        rounds[1],
        messages=rounds[1].messages[:0],
        survivors=np.empty(0, np.bool_),
        counts=rounds[1].counts[:0],
    )
    done = done_with(header, [rounds[0], bare, rounds[2]])
    assert (done.rounds, done.rounds_without) == (2, 1)
    empty = done_with(header, [bare])
    assert {each.reason for each in empty.outcomes if each.applies} == {"no message is recorded"}
    assert not empty.clean


# --- what could not be looked at ------------------------------------------------------------------


def test_numbers_that_are_too_coarse_are_not_looked_at() -> None:
    """In float32, and around ten million, a Laplace scale of 2.5 is next to the last digit."""
    header = header_of(dtype="float32")
    rounds = [
        dataclasses.replace(record, messages=record.messages + np.float32(factor))
        for record, factor in zip(played(header), (0.0, 3e8, 0.0), strict=True)
    ]
    done = done_with(header, rounds)
    assert parts_of(done, "weak-noise") == ["1 round of 3"]
    assert parts_of(done, "reused-noise") == ["noise shared by messages that differ, in 1 round of 3"]


def test_a_single_number_tells_little() -> None:
    header = header_of(parameters=1)
    done = done_with(header, [lint_traces.record_of(header, 0, np.array([[1.7]]))])
    assert parts_of(done, "weak-noise") == [
        "noise missing in one message",
        "noise missing in one coordinate",
        "noise of half the declared variance",
    ]
    assert parts_of(done, "reused-noise") == ["one shift for all coordinates"]
    assert parts_of(done, "grid") == ["1 round of 1"]


def test_rounding_hides_who_was_silent() -> None:
    """A client without clicks sends the rounded global model, which is not the global model."""
    header = header_of(noise=None, defense=["round"], events=["rounded:step=0.5,nearest"])
    rounds = played(header, lambda _, learnt, __: learnt)
    done = done_with(header, rounds)
    assert parts_of(done, "silent") == ["messages without any change"]
    assert parts_of(done, "sparsity") == ["coordinates without any change"]


def masked(
    declared: list[str], rounds: int = 2, messages: int = MESSAGES
) -> tuple[TraceHeader, list[RoundRecord]]:
    facts: dict[str, Any] = {"of": "model", "bits": 48, "fraction": 8, "range": 4.0, "events": declared}
    noise = "skellam:sigma=2,step=0.5"
    header = dataclasses.replace(
        header_of(),
        kind="masked",
        dtype="uint64",
        knowledge={**facts, "noise": noise, "defense": ["skellam"]},
    )
    rng = np.random.default_rng(8)
    plain = [lint_traces.record_of(header_of(), round_, np.ones((messages, P))) for round_ in range(rounds)]
    return header, [
        dataclasses.replace(record, messages=rng.integers(0, 2**48, size=(messages, P), dtype=np.uint64))
        for record in plain
    ]


def test_masked_messages_are_never_called_clean_of_noise() -> None:
    events = ["rounded:step=0.5,nearest", "noised:skellam:sigma=2,step=0.5", "summed:at-least=20"]
    header, rounds = masked(events)
    done = done_with(header, rounds)
    told = states(done)
    assert {name for name, state in told.items() if state == "clean"} == {
        "counts",
        "clear-metrics",
        "unmasked",
        "clear-fields",
    }
    assert parts_of(done, "reused-noise") == ["noise below the masks"]
    assert {each.reason for each in done.outcomes if each.is_missing} == {"masked messages hold integers"}
    assert not done.clean


def test_rounds_too_small_for_the_test_of_masks_are_named() -> None:
    header, rounds = masked([], messages=2)
    assert parts_of(done_with(header, rounds), "unmasked") == ["2 rounds of 2"]


# --- noise on a grid ------------------------------------------------------------------------------


def test_a_grid_that_leaves_most_coordinates_alone_is_a_leak() -> None:
    """Of a share of .3 steps, 91 % of the coordinates arrive as they were rounded."""
    chain = DefenseChain(parse_chain([f"skellam:sigma={0.3 * 0.5 * MESSAGES**0.5},step=0.5"]))
    done = lint_traces.of_chain(chain, parameters=46)
    (found,) = [f for f in done.findings if f.severity == "leak"]
    assert found.check == "bit-equal"
    assert found.share == pytest.approx(0.9158, abs=1e-4)  # exp(-.09) I_0(.09)
    assert "as the clients rounded them" in found.text


def test_messages_that_a_coarse_grid_makes_equal_are_no_leak() -> None:
    """Five coordinates on a coarse grid are equal by chance: that was called reused noise once."""
    chain = DefenseChain(parse_chain([f"skellam:sigma={0.6 * MESSAGES**0.5},step=0.5"]))
    done = lint_traces.of_chain(chain, parameters=5)
    assert leaks(done.findings) == set()
    assert parts_of(done, "reused-noise")[0] == "messages that are equal bit for bit"


def test_equal_messages_on_a_fine_grid_are_a_leak() -> None:
    law = "skellam:sigma=2,step=0.5"
    header = header_of(noise=law, events=["rounded:step=0.5,nearest", f"noised:{law}"])

    def twice(round_: int, learnt: Floats, noise: Floats) -> Floats:
        noise[7] = noise[3]
        return noise

    found = [f for f in done_with(header, played(header, twice)).findings if f.check == "reused-noise"]
    assert {f.severity for f in found} == {"leak"}
    assert "equal another one of the round bit for bit" in found[0].text


def test_every_check_has_an_outcome() -> None:
    header = header_of()
    done = done_with(header, played(header))
    assert [each.name for each in done.outcomes] == [check.name for check in CHECKS]
    assert [each.name for each in done.row.checks] == [check.name for check in CHECKS]
