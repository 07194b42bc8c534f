"""Lint checks that need no noise law: silence, counts, equal bits, patterns, clear fields, masks."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.trace import TraceHeader, TraceWriter
from foltr_audit.trace.lint import CHECKS, LintResult, lint
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import LAPLACE, MESSAGES, ROUNDS, P, found_in, header_of, leaks, only, played

KINDS = pytest.mark.parametrize("kind", ["model", "update"])


def written(folder: Path, header: TraceHeader, rounds: list[RoundRecord]) -> Path:
    with TraceWriter(folder, header) as writer:
        for record in rounds:
            writer.write(record)
    return folder


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@KINDS
def test_whole_noise_per_client_is_clean(tmp_path: Path, kind: str, dtype: str) -> None:
    header = header_of(kind, dtype)
    done = lint(written(tmp_path / "trace", header, played(header)))
    assert done.findings == ()
    assert (done.rounds, done.messages, done.leaks) == (ROUNDS, ROUNDS * MESSAGES, 0)
    assert {outcome.name for outcome in done.outcomes if not outcome.applies} == {
        *("unmasked", "mask-seeds", "both-shares"),
        *("reused-seeds", "sensitivity"),
    }
    assert all(outcome.state == "clean" for outcome in done.outcomes if outcome.applies), done.outcomes
    assert done.row.clean
    assert [check.name for check in done.row.checks] == [check.name for check in CHECKS]


def test_checks_have_names_and_meanings() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.tells for check in CHECKS)


# --- silence --------------------------------------------------------------------------------------


def _without_two(round_: int, learnt: Floats, noise: Floats) -> Floats:
    changes = lint_traces.whole(round_, learnt, noise)
    changes[[4, 8]] = 0.0
    return changes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@KINDS
def test_a_message_without_change_is_caught(kind: str, dtype: str) -> None:
    header = header_of(kind, dtype)
    finding = only(found_in(header, played(header, _without_two)), "silent")
    assert (finding.messages, finding.rounds, finding.example) == (2 * ROUNDS, ROUNDS, "round 0, message 4")
    assert finding.share == 2 / MESSAGES


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@KINDS
def test_noise_that_is_too_small_to_hide_a_silent_client_is_caught(kind: str, dtype: str) -> None:
    def two_learn_nothing(round_: int, learnt: Floats, noise: Floats) -> Floats:
        learnt[[4, 8]] = 0.0
        return learnt + noise

    shares = header_of(kind, dtype, "gamma-share:n=1000,scale=2.5", ["gamma-laplace:eps=1.2"])
    found = found_in(shares, played(shares, two_learn_nothing))
    assert sum(f.messages for f in found if f.check == "silent") == 2 * ROUNDS
    whole = header_of(kind, dtype)
    assert leaks(found_in(whole, played(whole, two_learn_nothing))) == set()


def test_missing_messages_are_caught_where_they_are_averaged() -> None:
    header = header_of()
    assert leaks(found_in(header, played(header, shares=MESSAGES))) == set()
    finding = only(found_in(header, played(header, shares=MESSAGES + 10)), "silent")
    assert (finding.messages, finding.share) == (10 * ROUNDS, 0.2)
    experiment = [
        dataclasses.replace(record, aggregate=record.parameters)
        for record in played(header, shares=MESSAGES + 10)
    ]
    assert leaks(found_in(header, experiment)) == set()


# --- counts, clear fields -------------------------------------------------------------------------


def test_counts_that_differ_are_caught() -> None:
    header = header_of()
    assert leaks(found_in(header, played(header, counts=np.full(MESSAGES, 7)))) == set()
    counts = np.full(MESSAGES, 7)
    counts[3] = 2
    finding = only(found_in(header, played(header, counts=counts)), "counts")
    assert "from 2 to 7" in finding.text
    assert finding.messages == MESSAGES * ROUNDS


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
    header = header if noise != "none" else dataclasses.replace(header, knowledge={"noise": "none"})
    found = found_in(header, played(header, lambda _, learnt, __: learnt + lint_traces.noise_of(LAPLACE, 0)))
    assert {f.severity for f in found if f.check == "clear-fields"} == ({severity} if severity else set())


def test_lists_features_and_lost_messages_are_noted() -> None:
    header = dataclasses.replace(header_of(), embeds_features=True)
    survivors = np.ones(MESSAGES, dtype=np.bool_)
    survivors[6] = False
    rows = np.arange(MESSAGES)
    fields: dict[str, Any] = {
        "slot": rows,
        "step": 0 * rows,
        "part": 0 * rows,
        "query": rows,
        "shown": np.tile(np.arange(3), (MESSAGES, 1)),
        "features": np.ones((MESSAGES, 3, 2), dtype=np.float32),
    }
    found = found_in(header, played(header, survivors=survivors, **fields))
    assert leaks(found) == set()
    texts = [f.text for f in found if f.check == "clear-fields"]
    assert len(texts) == 2
    assert "with the documents' features" in texts[0]
    assert "3 messages did not enter" in texts[1]
    bare = [f.text for f in found_in(header_of(), played(header_of()))]
    assert bare == []


# --- equal bits and patterns ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@KINDS
def test_coordinates_without_noise_are_caught(kind: str, dtype: str) -> None:
    def sparse_noise(round_: int, learnt: Floats, noise: Floats) -> Floats:
        untouched = np.random.default_rng([3, round_]).random(noise.shape) < 0.1
        return np.where(untouched, 0.0, lint_traces.whole(round_, learnt, noise))

    def shared_values(round_: int, learnt: Floats, noise: Floats) -> Floats:
        untouched = np.random.default_rng([4, round_]).random(noise.shape) < 0.1
        return np.where(untouched, learnt[0], lint_traces.whole(round_, learnt, noise))

    header = header_of(kind, dtype)
    assert leaks(found_in(header, played(header))) == set()
    still = only(found_in(header, played(header, sparse_noise)), "bit-equal")
    assert still.share == pytest.approx(0.1, abs=0.02)
    shared = only(found_in(header, played(header, shared_values)), "bit-equal")
    assert shared.share == pytest.approx(0.1, abs=0.02)
    assert "the same in several messages" in shared.text


def _keep(round_: int, changes: Floats, which: str) -> Floats:
    """Keep 5 coordinates: the largest, the same random ones for all, or random ones of each client."""
    ranks = {
        "largest": -np.abs(changes),
        "one draw": np.tile(np.random.default_rng([5, round_]).random(P), (MESSAGES, 1)),
        "own draw": np.random.default_rng([6, round_]).random(changes.shape),
    }[which]
    return np.where(np.argsort(np.argsort(ranks, axis=1), axis=1) < 5, changes, 0.0)


@KINDS
def test_patterns_of_zeros_are_told_apart(kind: str) -> None:
    def found_by(chain: list[str], which: str) -> tuple[set[str], set[str]]:
        header = header_of(kind, defense=chain)
        found = found_in(
            header, played(header, lambda t, learnt, noise: _keep(t, learnt + noise, which), seed=1)
        )
        return leaks(found), {f.check for f in found if f.severity == "note"}

    noise = "laplace:eps=1,sensitivity=2.5"
    assert found_by([noise, "top-k:k=5"], "largest") == (set(), {"sparsity"})
    assert found_by(["top-k:k=5", noise], "largest")[0] >= {"sparsity", "weak-noise"}
    assert found_by(["home-made"], "largest") == (set(), {"sparsity"})
    known = header_of(kind, defense=["home-made"], events=[f"noised:{LAPLACE}"])
    found = found_in(known, played(known, lambda t, learnt, noise: _keep(t, learnt + noise, "largest")))
    assert leaks(found) == {"bit-equal", "sparsity", "weak-noise", "reused-noise"}
    assert found_by(["random-k:k=5"], "one draw") == (set(), {"sparsity"})
    assert found_by(["random-k:k=5", "home-made"], "own draw") == (set(), {"sparsity"})
    assert found_by(["home-made"], "one draw") == (set(), {"sparsity"})


@KINDS
def test_signs_and_steps_are_noted_and_no_leak(kind: str) -> None:
    def signs(_: int, learnt: Floats, noise: Floats) -> Floats:
        return np.asarray(0.125 * np.sign(learnt + noise))

    def steps(_: int, learnt: Floats, noise: Floats) -> Floats:
        return np.asarray(0.5 * np.round(2 * (learnt + noise)))

    for chain, change in (
        (["laplace:eps=1,sensitivity=2.5", "sign"], signs),
        (["laplace:eps=1,sensitivity=2.5", "quantise:bits=4"], steps),
        (["skellam:eps=1"], steps),
    ):
        header = header_of(kind, defense=chain)
        found = found_in(header, played(header, change))
        assert leaks(found) == set()
        assert only(found, "grid", "note").share == 1.0
    assert found_in(header_of(kind), played(header_of(kind))) == []


# --- masked messages ------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [24, 48, 64])
def test_masks_that_are_missing_are_caught(tmp_path: Path, bits: int) -> None:
    header = dataclasses.replace(
        header_of(),
        kind="masked",
        dtype="uint64",
        knowledge={
            "of": "model",
            "bits": bits,
            "fraction": 8,
            "range": 4.0,
            "defense": ["secure-aggregation"],
        },
    )

    def rounds(values: list[Any]) -> list[RoundRecord]:
        plain = played(header_of())
        pairs = zip(plain, values, strict=True)
        return [dataclasses.replace(record, messages=value) for record, value in pairs]

    rng = np.random.default_rng(8)
    high = np.uint64(2**bits - 1)
    masks = [rng.integers(0, high, size=(MESSAGES, P), dtype=np.uint64, endpoint=True) for _ in range(ROUNDS)]
    numbers = [rng.integers(-999, 999, size=(MESSAGES, P)).astype(np.uint64) & high for _ in range(ROUNDS)]
    done = lint(written(tmp_path / "masked", header, rounds(masks)))
    assert done.findings == ()
    states = {outcome.name: outcome.state for outcome in done.outcomes}
    assert {name for name, state in states.items() if state == "clean"} == {
        "counts",
        "clear-metrics",
        "unmasked",
        "clear-fields",
    }
    assert leaks(lint(written(tmp_path / "bare", header, rounds(numbers))).findings) == {"unmasked"}
    again = lint(written(tmp_path / "again", header, rounds([masks[0]] * ROUNDS)))
    assert leaks(again.findings) == {"reused-noise"}


# --- odd traces -----------------------------------------------------------------------------------


def test_nothing_to_look_at_is_no_leak(tmp_path: Path) -> None:
    header = header_of()
    assert lint(written(tmp_path / "empty", header, [])).row.rounds == 0
    nobody = lint_traces.record_of(header, 0, np.ones((1, P)))
    nobody = dataclasses.replace(
        nobody, messages=nobody.messages[:0], survivors=nobody.survivors[:0], counts=nobody.counts[:0]
    )
    assert lint(written(tmp_path / "nobody", header, [nobody])).findings == ()


def _lint_one(folder: Path, header: TraceHeader, changes: Floats) -> LintResult:
    return lint(written(folder, header, [lint_traces.record_of(header, 0, changes)]))


def test_one_message_and_one_coordinate(tmp_path: Path) -> None:
    header = header_of(parameters=1)
    assert _lint_one(tmp_path / "one", header, np.array([[1.7]])).findings == ()
    assert leaks(_lint_one(tmp_path / "zero", header, np.zeros((1, 1))).findings) == {"silent"}


@KINDS
def test_numbers_at_the_end_of_the_range_crash_nothing(tmp_path: Path, kind: str) -> None:
    for place, size in enumerate((1.7e308, 5e-324)):
        changes = size * np.sign(lint_traces.updates(0))
        _lint_one(tmp_path / str(place), header_of(kind), changes)
    header = header_of(kind, "float32")
    record = lint_traces.record_of(header, 0, lint_traces.updates(0), parameters=np.full(P, 1e300))
    lint(written(tmp_path / "far", header, [record]))


def test_odd_knowledge_is_survived(tmp_path: Path) -> None:
    odd: tuple[dict[str, Any], ...] = (
        {"noise": 3.0},
        {"noise": "laplace:scale=nan"},
        {"noise": ""},
        {"defense": "home-made"},
        {"defense": []},
    )
    for place, knowledge in enumerate(odd):
        header = dataclasses.replace(header_of(), knowledge=knowledge)
        lint(written(tmp_path / str(place), header, played(header)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    header = header_of()
    rounds = played(header)
    messages = np.array(rounds[1].messages, dtype=np.float64)
    messages[6, 2] = value
    rounds[1] = dataclasses.replace(rounds[1], messages=messages)
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
