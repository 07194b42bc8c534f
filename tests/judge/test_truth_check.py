"""The truth of another message is refused where a replay shows it, and the right truth never is."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError
from foltr_audit.judge.fact_check import TruthCheck, check_truth
from foltr_audit.judge.observer import Observer
from foltr_audit.trace import Trace, TraceWriter
from tests.fixtures import foreign_trace, listwise_trace
from tests.fixtures.command import SMALL, refusal, run
from tests.fixtures.foreign_trace import System
from tests.judge.test_fact_check import MISTAKES, SYSTEMS, B, normal_noise, trace_of

Rounds = list[tuple[RoundRecord, RoundTruth]]
Change = Callable[[Rounds], Rounds]

PLAIN = System(shares=None)


def checked(folder: Path) -> TruthCheck:
    trace = Trace.open(folder)
    return check_truth(trace, Observer(trace.header, None))


def with_clicks(rounds: Rounds, clicks: Sequence[Any]) -> Rounds:
    return [
        (record, replace(truth, clicks=mine)) for (record, truth), mine in zip(rounds, clicks, strict=True)
    ]


def shifted(rounds: Rounds) -> Rounds:
    """All clicks one row down, as far as the list of a row goes."""
    rows = np.roll(np.concatenate([truth.clicks for _, truth in rounds]), 1, axis=0)
    ends = np.cumsum([len(truth.clicks) for _, truth in rounds])[:-1]
    return with_clicks(
        rounds,
        [mine & (record.shown >= 0) for mine, (record, _) in zip(np.split(rows, ends), rounds, strict=True)],
    )


def swapped(rounds: Rounds) -> Rounds:
    """The truth of two clients of each round is that of each other."""
    out = []
    for record, truth in rounds:
        rows = np.arange(len(truth.clicks))
        some = np.flatnonzero(truth.clicks.any(axis=1))
        one, other = record.slot == record.slot[some[0]], record.slot == record.slot[some[-1]]
        rows[one], rows[other] = np.flatnonzero(other), np.flatnonzero(one)
        out.append(truth.clicks[rows] & (record.shown >= 0))
    return with_clicks(rounds, out)


def other_rounds(rounds: Rounds) -> Rounds:
    """The truth of the next round."""
    return with_clicks(
        rounds,
        [
            rounds[(i + 1) % len(rounds)][1].clicks & (record.shown >= 0)
            for i, (record, _) in enumerate(rounds)
        ],
    )


CHANGES = {"shift": shifted, "swap": swapped, "rounds": other_rounds}


def recorded(folder: Path, system: System, change: Change | None = None, **header: Any) -> Path:
    formats = {"dtype": header["dtype"]} if "dtype" in header else {}
    rounds = foreign_trace.records(system, **formats)
    rounds = rounds if change is None else change(rounds)
    return foreign_trace.write(folder, foreign_trace.header(system, **header), rounds)


def rewrite(folder: Path, change: Change) -> None:
    """Change the truth of a trace in place; all hashes are those of the new files."""
    trace, new = Trace.open(folder), folder.with_name("new")
    with TraceWriter(new, trace.header) as writer:
        for record, truth in change(list(zip(trace.rounds(), trace.truths(), strict=True))):
            writer.write(record, truth)
    shutil.rmtree(folder)
    new.rename(folder)


# --- the right truth ------------------------------------------------------------------------------


@pytest.mark.parametrize("lists", [1, 4])
@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("shares", [None, 1000])
def test_the_right_truth_passes(tmp_path: Path, lists: int, clip: float | None, shares: int | None) -> None:
    found = checked(recorded(tmp_path / "t", System(lists=lists, clip=clip, shares=shares)))
    assert found.reason is None
    assert found.messages > 40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_messages_follow_from_their_clicks(tmp_path: Path, dtype: str) -> None:
    assert checked(recorded(tmp_path / "t", PLAIN, dtype=dtype)).reason is None


@pytest.mark.parametrize("sigma", [1e-5, 1e-4, 5e-4, 5e-3, 0.3])
def test_noise_never_accuses_the_right_truth(tmp_path: Path, sigma: float) -> None:
    """More rounds than one sample, with noise from next to nothing to far above the updates."""
    for seed in range(8):
        system, facts = replace(B, shares=None, seed=seed), {"noise": f"gaussian:sigma={sigma}"}
        found = checked(trace_of(tmp_path / f"{seed}", system, facts, normal_noise(sigma)))
        assert (found.reason is None) == (sigma < 0.3), found.text


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_facts_are_not_blamed_on_the_truth(tmp_path: Path, name: str) -> None:
    found = checked(trace_of(tmp_path / "t", SYSTEMS.get(name, B), **MISTAKES[name]))
    assert found.reason is not None
    assert found.doubtful or name in ("pairs that reach too little far", "normaliser")


@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_reversed_messages_are_not_blamed_on_the_truth(tmp_path: Path, pairs: str) -> None:
    """Of all pairs the opposite clicks explain them, as those of malicious clients that reverse updates."""

    def reversed_half(record: RoundRecord) -> dict[str, Any]:
        sign = np.where(np.arange(record.n_messages) % 2, -1.0, 1.0)
        return {"messages": sign[:, np.newaxis] * record.messages}

    found = checked(trace_of(tmp_path / "t", replace(PLAIN, pairs=pairs), change=reversed_half))
    assert "a fact or the truth may be wrong" in found.text


# --- the truth of other messages ------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("lists", [1, 4])
@pytest.mark.parametrize("shares", [None, 1000])
def test_the_truth_of_others_is_refused(tmp_path: Path, change: str, lists: int, shares: int | None) -> None:
    folder = recorded(tmp_path / "t", System(lists=lists, shares=shares), CHANGES[change])
    with pytest.raises(TraceError, match=r"clicks-00000\.npz: round 0, message \d+: .* from other clicks"):
        checked(folder)


@pytest.mark.parametrize("noise", ["laplace:scale=2.5", "gaussian:sigma=0.3"])
def test_clicks_against_the_updates_behind_them_are_refused_under_any_noise(
    tmp_path: Path, noise: str
) -> None:
    """Both are truth: what hides the messages does not hide that one of them is wrong."""
    facts = {"noise": noise}
    assert checked(recorded(tmp_path / "right", PLAIN, facts=facts)).reason is not None
    with pytest.raises(TraceError, match=r"truth/messages-00000\.npz follows from other clicks"):
        checked(recorded(tmp_path / "t", PLAIN, shifted, facts=facts))


def test_small_noise_hides_nothing(tmp_path: Path) -> None:
    facts = {"noise": "gaussian:sigma=0.0005"}

    def unknown_updates(rounds: Rounds) -> Rounds:
        return [
            (record, replace(truth, updates=np.full_like(truth.updates, np.nan))) for record, truth in rounds
        ]

    noise = normal_noise(0.0005)
    noised = [
        (replace(record, **noise(record)), truth)
        for record, truth in unknown_updates(foreign_trace.records(PLAIN))
    ]
    header = foreign_trace.header(PLAIN, facts={**facts, "aggregate": "other"})
    assert checked(foreign_trace.write(tmp_path / "right", header, noised)).reason is None
    with pytest.raises(TraceError, match=r"observed/messages-00000\.npz follows from other clicks"):
        checked(foreign_trace.write(tmp_path / "t", header, shifted(noised)))


def test_unknown_clicks_are_left_out(tmp_path: Path) -> None:
    def unknown(rounds: Rounds) -> Rounds:
        moved = shifted(rounds)
        return [
            (record, replace(truth, known=(truth.clicks == right.clicks).all(axis=1)))
            for (record, truth), (_, right) in zip(moved, rounds, strict=True)
        ]

    assert "message" in checked(recorded(tmp_path / "t", PLAIN, unknown)).text


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"events": ["randomised-clicks:eps=1"]}, "clients learn from other clicks"),
        ({"events": ["opaque:mine"]}, "opaque:mine may change clicks"),
        ({"learning_rate": None}, "does not say learning_rate"),
        ({"normaliser": "candidates"}, "over all candidates"),
    ],
)
def test_what_is_not_known_accuses_nobody(tmp_path: Path, facts: dict[str, Any], reason: str) -> None:
    found = checked(recorded(tmp_path / "t", PLAIN, shifted, facts=facts))
    assert reason in found.text


def test_own_client_steps_are_replayed(tmp_path: Path) -> None:
    folder = listwise_trace.write(tmp_path / "t")
    step = fa.numpy_step(listwise_trace.step)

    def found() -> TruthCheck:
        trace = Trace.open(folder)
        return check_truth(trace, Observer(trace.header, None, client_step=step))

    assert found().reason is None
    rewrite(folder, shifted)
    with pytest.raises(TraceError, match="follows from other clicks"):
        found()


# --- Runs -----------------------------------------------------------------------------------------

ATTACK = (*SMALL, "--click-model", "perfect", "--method", "olsr")
REPLAYED = {
    "none": (),
    "clip": ("--defense", "clip:norm=0.1"),
    "global lists": ("--rank-with", "global"),
    "float64 updates": ("--message", "update", "--message-dtype", "float64"),
    "a robust mean": ("--defense", "median"),
    "a reversed third": ("--poisoning", "gradient-reversal:share=0.3"),
    "agreed updates": ("--poisoning", "lie:share=0.3"),
    "manipulated features": ("--server", "manipulate", "--pdgd", "pham-2022"),
    "silenced clients": ("--server", "saturate"),
    "own clients": ("--server", "sybils:share=0.5"),
    "clicks": ("--learner", "pdgd"),
}
HIDDEN = {
    "masks": (
        "clip:norm=1.5+skellam:sigma=3,step=0.0001220703125+secure-aggregation:once=false",
        "messages are masked",
    ),
    "noise": ("clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3", "noise of the declared law is larger"),
    "lies": ("click-rr:eps=1", "clients learn from other clicks"),
}


def trained(folder: Path, *options: Any) -> Path:
    done = run("train", *SMALL, "--click-model", "perfect", *options, "--out", folder)
    assert done.code == 0, done.err
    return folder


def attacked(folder: Path) -> Any:
    done = run("attack", "--trace", folder, "--target", "training", "--json")
    assert done.code == 0, done.err
    return [row for row in done.json()["warnings"] if row["code"] == "FA207"]


@pytest.mark.parametrize("name", REPLAYED)
def test_messages_of_a_run_follow_from_their_truth_alone(tmp_path: Path, name: str) -> None:
    folder = trained(tmp_path / "run", *REPLAYED[name])
    assert attacked(folder) == []
    rewrite(folder / "trace", shifted)
    assert "follows from other clicks" in refusal("attack", "--trace", folder, code=3)


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_messages_is_said(tmp_path: Path, name: str) -> None:
    chain, reason = HIDDEN[name]
    (row,) = attacked(trained(tmp_path / "run", "--defense", chain))
    assert reason in row["warning"]


def test_online_metrics_are_not_checked(tmp_path: Path) -> None:
    (row,) = attacked(trained(tmp_path / "run", "--learner", "foltr-es"))
    assert "truth not checked: messages of kind es" in row["warning"]


def test_a_gate_refuses_the_truth_of_others(tmp_path: Path) -> None:
    limits, folder = tmp_path / "limits.toml", tmp_path / "run"
    limits.write_text("max_attack_auc = 0.9999\n")
    assert run("attack", *ATTACK, "--out", folder).code == 0
    assert "FA207" not in run("check", limits, "--trace", folder).err
    for header in list(folder.rglob("trace.toml")):
        rewrite(header.parent, shifted)
    line = refusal("check", limits, "--trace", folder, code=3)
    assert "follows from other clicks" in line
    assert "truth/clicks-00000.npz" in line


def test_a_gate_does_not_judge_messages_that_no_clicks_explain(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_attack_auc = 0.9999\n")
    folder = recorded(tmp_path / "t", PLAIN, facts={"learning_rate": 0.2, "defense": ["none"]})
    done = run("check", limits, "--trace", folder, "--json")
    (outcome,) = done.json()["outcomes"]
    assert outcome["status"] == "not judged"
    assert "a fact or the truth may be wrong" in outcome["missing"]
