"""What recorders note reaches attacks: candidates, clips of updates, facts by round, unknown truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge.fact_check import check_facts
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_messages
from foltr_audit.trace import Trace
from tests.fixtures import foreign_trace
from tests.fixtures.command import run
from tests.fixtures.foreign_trace import K, System
from tests.fixtures.there import there

PLAIN = System(clients=30, rounds=2, shares=None)
CLIPPED = replace(PLAIN, update_clip=0.02)
CANDIDATES = replace(PLAIN, normaliser="candidates")


def trace_of(folder: Path, system: System, **changes: Any) -> Trace:
    facts = changes.pop("facts", {})
    rounds = foreign_trace.records(system, **changes)
    foreign_trace.write(folder, foreign_trace.header(system, facts={"aggregate": "other", **facts}), rounds)
    return Trace.open(folder)


def exact(folder: Path, method: str = "map") -> float:
    """Share of lists whose clicks one method reads without an error."""
    found = {row["method"]: row.number("exact") for row in fa.attack_trace(folder, method).results}
    return found[method]


def told(folder: Path, *methods: str) -> str:
    """What an attack prints, in one line."""
    options = [word for method in methods for word in ("--method", method)]
    done = run("attack", "--full", "--trace", folder, *options)
    assert done.code == 0
    return " ".join(done.out.split())


# --- a clip of the update -------------------------------------------------------------------------


def test_clipped_updates_are_read(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "right", CLIPPED)
    assert exact(tmp_path / "right") == 1.0
    found = check_facts(trace, Observer(trace.header, None))
    assert (found.state, found.explained) == ("explained", 1.0)
    trace_of(tmp_path / "wrong", CLIPPED, facts={"update_clip_norm": None})
    assert exact(tmp_path / "wrong") < 0.5


def test_the_likelihood_of_each_pattern_is_that_of_its_clipped_update(tmp_path: Path) -> None:
    """Against the update of each pattern, step by step, scaled by hand."""
    facts = {"noise": "gaussian:sigma=0.01"}
    trace = trace_of(tmp_path / "t", CLIPPED, facts=facts)
    record = next(trace.rounds())
    [seen] = Observer(trace.header, None).views(record)
    decoder, messages = PatternDecoder(seen.view), np.arange(5)
    found = decoder.likelihoods(messages, 0, np.array(seen.view.parameters[messages]))
    for message in messages:
        for pattern in (0, 1, 6, 17):
            clicks = (pattern >> np.arange(K) & 1 == 1)[np.newaxis]
            start = seen.view.parameters[[message]]
            update = decoder.replay.step(start, np.array([message]), 0, clicks)[0] - start[0]
            update = update * min(1.0, 0.02 / max(float(np.linalg.norm(update)), 1e-300))
            left = seen.view.updates[message] - update
            by_hand = -((left / 0.01) ** 2).sum() / 2 - left.size * np.log(0.01 * np.sqrt(2 * np.pi))
            assert found[message, pattern] == pytest.approx(by_hand, rel=1e-3, abs=0.05)


def test_a_clip_of_several_lists_together_is_refused_with_the_reason(tmp_path: Path) -> None:
    trace_of(tmp_path / "t", replace(CLIPPED, lists=2))
    said = told(tmp_path / "t", "olsr", "joint-map")
    assert "joint-map: cannot run: fact update_clip_norm: the clip of a whole update" in said


# --- candidates -----------------------------------------------------------------------------------


def test_embedded_candidates_take_the_place_of_the_data(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "with", CANDIDATES, candidates=True)
    assert exact(tmp_path / "with") == 1.0
    found = check_facts(trace, Observer(trace.header, None))
    assert (found.state, found.explained) == ("explained", 1.0)
    trace_of(tmp_path / "without", CANDIDATES)
    said = told(tmp_path / "without", "olsr", "map")
    assert "map: cannot run: the observer does not know: candidates" in said


def test_hidden_candidates_are_out_of_reach(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "t", CANDIDATES, candidates=True)
    record = next(trace.rounds())
    [seen] = Observer(trace.header, None).views(record)
    assert np.array_equal(there(seen.view.candidates).offsets[1:], np.cumsum(there(record.n_candidates)))
    [hidden] = Observer(trace.header, None, frozenset({"candidates"})).views(record)
    assert hidden.view.candidates is None


def test_a_round_keeps_the_candidates_of_chosen_messages(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "t", CANDIDATES, candidates=True)
    record = next(trace.rounds())
    chosen, rows = with_messages(record, np.array([7, 3]))
    assert rows.tolist() == [7, 3]
    parts = np.split(np.asarray(record.candidates), np.cumsum(there(record.n_candidates))[:-1])
    assert np.array_equal(np.asarray(chosen.candidates), np.concatenate([parts[7], parts[3]]))
    assert np.array_equal(chosen.messages, record.messages[[7, 3]])


# --- facts by round -------------------------------------------------------------------------------


def test_facts_of_a_round_hold_in_it(tmp_path: Path) -> None:
    """The step size decays; the header has that of the first round."""
    slow = replace(PLAIN, learning_rate=0.05)
    early, late = foreign_trace.records(PLAIN)[0], foreign_trace.records(slow)[1]
    header = foreign_trace.header(PLAIN, facts={"aggregate": "other"})
    for name, facts in (("told", {"learning_rate": 0.05}), ("untold", {})):
        rounds = [early, (replace(late[0], facts=facts), late[1])]
        foreign_trace.write(tmp_path / name, header, rounds)
    assert exact(tmp_path / "told") == 1.0
    assert exact(tmp_path / "untold") < 0.75


# --- unknown truth --------------------------------------------------------------------------------


def test_lists_of_unknown_clicks_are_left_out_of_scores(tmp_path: Path) -> None:
    """Half of the clients do not consent: what stands in their rows changes nothing."""
    known = np.arange(30) % 2 == 0
    found = []
    for name, clicks in (("zeros", False), ("ones", True)):
        rounds = []
        for record, truth in foreign_trace.records(PLAIN):
            said = np.where(known[:, np.newaxis], truth.clicks, clicks & (record.shown >= 0))
            rounds.append((record, fa.RoundTruth(clients=truth.clients, clicks=said, known=known)))
        foreign_trace.write(tmp_path / name, foreign_trace.header(PLAIN), rounds)
        report = fa.attack_trace(tmp_path / name, ["olsr", "map"])
        found.append({row["method"]: row for row in report.results})
    assert repr(found[0]) == repr(found[1])  # NaN equals NaN here
    row = found[0]["map"]
    assert (row["unknown"], row["lists"] + row["skipped"]) == (30, 30)
    assert row.number("exact") == 1.0
    printed = told(tmp_path / "ones", "map")
    assert "30 whose clicks are not known left out" in printed
    assert "of the steps clipped" not in printed


# --- who knows what -------------------------------------------------------------------------------


def test_reports_say_which_lists_the_server_does_not_have(tmp_path: Path) -> None:
    for known, said in (("auditor", True), ("server", False), (None, False)):
        trace_of(tmp_path / str(known), PLAIN, facts={"lists_known": known})
        warnings = [row["warning"] for row in fa.attack_trace(tmp_path / str(known), "olsr").warnings]
        assert any("which this server does not have" in text for text in warnings) == said


def test_an_unknown_aggregate_keeps_no_attack_from_its_work(tmp_path: Path) -> None:
    played = foreign_trace.records(PLAIN)
    rounds = [(replace(record, aggregate=record.aggregate * np.nan), truth) for record, truth in played]
    foreign_trace.write(tmp_path / "t", foreign_trace.header(PLAIN), rounds)
    assert exact(tmp_path / "t", "lad") > 0.9
    done = run("trace", "lint", tmp_path / "t")
    assert done.code in (0, 1)
    assert "declared facts explain 100 % of" in run("trace", "check-facts", tmp_path / "t").out
