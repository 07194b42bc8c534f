"""Writers refuse what cannot be meant, and `trace validate` finds it in traces that others wrote."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import TraceError, UsageError
from foltr_audit.trace import Fact, Trace, validate
from foltr_audit.trace.facts import FACTS, checked_facts, parse_facts
from tests.fixtures import foreign_trace
from tests.fixtures.foreign_trace import System
from tests.fixtures.rounds import with_lists

SYSTEM = System(rounds=1, clients=6, shares=None)


def failed(record: RoundRecord, row: float | None, *, lists: bool = False) -> RoundRecord:
    """The last message never arrived; its row holds `row`, or the global model where that is None."""
    messages, last = np.array(record.messages), record.n_messages - 1
    messages[last] = record.parameters if row is None else row
    survivors = np.arange(record.n_messages) != last
    mean = record.parameters + messages[survivors].mean(axis=0)
    kept = slice(None) if lists else record.slot != last
    return with_lists(record, kept, messages=messages, survivors=survivors, aggregate=mean)


Change = Callable[[RoundRecord], RoundRecord]
ROUNDS: tuple[tuple[Change, str], ...] = (
    (lambda r: replace(r, aggregate=0 * r.aggregate), "aggregate is 0 at parameter 0, expected"),
    (lambda r: replace(r, aggregate=r.aggregate - r.parameters), "parameters plus the mean of the messages"),
    (lambda r: replace(r, aggregate=r.aggregate * 1.01), "(fact aggregate = 'other' where the server does"),
    (lambda r: replace(r, counts=np.full(r.n_messages, 4)), "counts hold 4 for message 0, expected 1 as"),
    (lambda r: failed(r, None), "messages hold numbers in row 5, which survivors says never arrived"),
    (lambda r: failed(r, np.nan), "messages hold numbers in row 5, which survivors says never arrived"),
    (lambda r: failed(r, 0.0, lists=True), "slot holds lists of message 5, which survivors says never"),
)


@pytest.mark.parametrize(("change", "expected"), ROUNDS)
def test_a_round_that_contradicts_itself_is_refused_and_found(
    tmp_path: Path, change: Change, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = replace(foreign_trace.header(SYSTEM), has_truth=False)
    record, _ = foreign_trace.records(SYSTEM)[0]
    with fa.TraceWriter(tmp_path / "here", header) as writer:
        with pytest.raises(UsageError, match=rf"^trace: round 0: .*{re.escape(expected)}[^\n]*$"):
            writer.write(change(record))
        writer.write(record)
    assert validate(tmp_path / "here") == []
    monkeypatch.setattr("foltr_audit.trace.writer.contradictions", lambda header, record: ())
    with fa.TraceWriter(tmp_path / "theirs", header) as writer:
        writer.write(change(record))
    [problem] = validate(tmp_path / "theirs")
    assert expected in problem or "not finite" in problem


def test_a_client_that_failed_is_a_row_of_zeros_without_lists(tmp_path: Path) -> None:
    record, _ = foreign_trace.records(SYSTEM)[0]
    header = replace(foreign_trace.header(SYSTEM), has_truth=False)
    good = failed(record, 0.0)
    assert validate(foreign_trace.write(tmp_path / "t", header, [(good, None)])) == []  # type: ignore[list-item]


def test_the_mean_is_weighted_by_counts_and_rounded(tmp_path: Path) -> None:
    record, _ = foreign_trace.records(SYSTEM, dtype="float32")[0]
    counts = np.arange(1, 7)
    mean = np.average(record.messages, axis=0, weights=counts).astype(np.float32)
    whole = foreign_trace.header(SYSTEM, facts={"interactions": None})
    header = replace(whole, has_truth=False, dtype="float32")
    with fa.TraceWriter(tmp_path / "t", header) as writer:
        with pytest.raises(UsageError, match="aggregate is"):
            writer.write(replace(record, counts=counts))
        writer.write(replace(record, counts=counts, aggregate=record.parameters + mean))
    other = {**header.knowledge, "aggregate": "other"}
    with fa.TraceWriter(tmp_path / "other", replace(header, knowledge=other)) as writer:
        writer.write(replace(record, counts=counts))
    assert validate(tmp_path / "other") == []


@pytest.mark.parametrize(
    ("counts", "facts", "expected"),
    [
        ([0.2, 0.4, 0.6, 0.8, 1.0, 2.5], {}, ""),
        ([0.5] * 6, {"honest_messages": 6}, ""),
        ([0.5, 1, 1, 1, 1, 1], {"honest_messages": 6}, "counts are weights from 0.5 to 1"),
        ([0.5, 1, 1, 1, 1, 1], {"honest_messages": 6, "interactions": None}, ""),
        ([math.nan, 1, 1, 1, 1, 1], {}, "counts holds nan"),
        ([math.inf, 1, 1, 1, 1, 1], {}, "counts holds inf"),
        ([-0.5, 1, 1, 1, 1, 1], {}, "counts holds -0.5"),
    ],
)
def test_weights_that_are_not_whole_say_nothing_of_interactions(
    tmp_path: Path, counts: list[float], facts: dict[str, object], expected: str
) -> None:
    record, _ = foreign_trace.records(SYSTEM)[0]
    weights = np.nan_to_num(np.abs(counts), posinf=1.0)
    after = record.parameters + np.average(record.messages, axis=0, weights=weights)
    header = replace(foreign_trace.header(SYSTEM, facts=facts), has_truth=False)
    with contextlib.ExitStack() as stack:
        if expected:
            stack.enter_context(pytest.raises(UsageError, match=expected))
        with fa.TraceWriter(tmp_path / "t", header) as writer:
            writer.write(replace(record, counts=np.array(counts), aggregate=after))
        assert validate(tmp_path / "t") == []
        [read] = Trace.open(tmp_path / "t").rounds()
        assert read.counts.tolist() == counts


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("slot", 0.5), ("step", 0.5), ("part", 0.25), ("query", math.nan), ("shown", 1.5)),
        *(("survivors", 0.5), ("survivors", 2), ("sizes", 2.5), ("senders", -1), ("senders", 1.5)),
    ],
)
def test_numbers_that_are_not_whole_are_refused_and_not_rounded(name: str, wrong: float) -> None:
    record, _ = foreign_trace.records(SYSTEM)[0]
    known = {"sizes": np.ones(record.n_messages), "senders": np.arange(record.n_messages)}
    values = np.array(known.get(name, getattr(record, name)), dtype=np.float64)
    changes: dict[str, Any] = {name: values}
    assert replace(record, **changes), "whole numbers of any type are taken"
    values.flat[0] = wrong
    with pytest.raises(UsageError, match=rf"round 0: {name} hold .*, expected (whole numbers|true or false)"):
        replace(record, **changes)


BAD_FACTS: tuple[tuple[str, object, str], ...] = (
    ("learningrate", 0.1, "unknown fact knowledge.learningrate; did you mean 'learning_rate'?"),
    ("pairs", "observed", "knowledge.pairs is 'observed', expected all or last-click+1"),
    ("normaliser", "all", "knowledge.normaliser is 'all', expected shown or candidates"),
    ("noise", "laplace share", "knowledge.noise is 'laplace share', expected none, or a law"),
    ("noise", 2.5, "knowledge.noise is 2.5, expected none, or a law"),
    ("clip_ord", float("inf"), "knowledge.clip_ord is inf, expected 1 or 2"),
    ("clip_norm", 0.0, "knowledge.clip_norm is 0.0, expected a number above 0"),
    ("learning_rate", True, "knowledge.learning_rate is True, expected a number above 0"),
    ("interactions", 0, "knowledge.interactions is 0, expected a whole number from 1 on"),
    ("lists", "random", "knowledge.lists is 'random', expected sampled or deterministic or interleaved"),
    ("events", ["noised"], "knowledge.events is ['noised'], expected a list of texts such as"),
    ("aggregate", "median", "knowledge.aggregate is 'median', expected mean or other"),
)


@pytest.mark.parametrize(("name", "value", "expected"), BAD_FACTS)
def test_facts_that_cannot_be_meant_are_refused_and_found(
    tmp_path: Path, name: str, value: object, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = replace(foreign_trace.header(SYSTEM, facts={name: value}), has_truth=False)
    with pytest.raises(TraceError, match=f"^trace: header: .*{re.escape(expected)}"):
        fa.TraceWriter(tmp_path / "here", header)
    assert not (tmp_path / "here").exists()
    monkeypatch.setattr("foltr_audit.trace.writer.problems_of", lambda *_, **__: [])
    fa.TraceWriter(tmp_path / "theirs", header).close()
    (problem,) = validate(tmp_path / "theirs")
    assert expected in problem
    assert Trace.open(tmp_path / "theirs").header == header  # readers go on


def test_runs_may_hold_facts_of_plug_ins(tmp_path: Path) -> None:
    facts = {"temperature": 2.0, "noise": "cauchy:1"}
    fa.TraceWriter(tmp_path / "t", replace(foreign_trace.header(SYSTEM, facts=facts), spec_hash="ab")).close()
    assert validate(tmp_path / "t") == []


def test_every_fact_that_is_read_is_known() -> None:
    """The reading code asks for no fact that a writer would refuse."""
    root = Path(fa.__file__).parent
    asked = set()
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        asked |= set(re.findall(r'(?:(?:knowledge|known|facts)\.get\(|knowledge\[)"(\w+)"', text))
        if path.name == "observer.py":
            asked |= set(re.findall(r'(?:texts|numbers)\.get\("(\w+)"', text))
    assert {"learning_rate", "eps_claimed", "of", "noise"} <= asked
    assert asked <= set(FACTS)


@pytest.mark.parametrize("senders", [["a", "b", "c", "d", "e", "f"], [object()] * 6, [2**70] * 6])
def test_senders_that_are_no_numbers_are_one_line(senders: list[Any]) -> None:
    _, truth = foreign_trace.records(SYSTEM)[0]
    with pytest.raises(UsageError, match=r"^truth: clients hold .*, expected whole numbers$"):
        replace(truth, clients=np.array(senders))


# --- facts that are given by hand -----------------------------------------------------------------


def test_texts_are_read_as_the_type_of_their_fact() -> None:
    facts: dict[str, Fact] = {
        "learning_rate=.1": 0.1,
        "interactions=4": 4,
        "clip_without_pairs=yes": True,
        "noise=gamma-share:n=1000,scale=2.5": "gamma-share:n=1000,scale=2.5",
        "eps_claimed=inf": math.inf,
        "defense=clip:norm=1.5+gamma-laplace:eps=1.2": "clip:norm=1.5+gamma-laplace:eps=1.2",
        "events=noised:laplace:scale=2.5;opaque:x": ["noised:laplace:scale=2.5", "opaque:x"],
    }
    assert parse_facts(list(facts)) == {text.partition("=")[0]: fact for text, fact in facts.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rat=0.1", "unknown fact 'learning_rat'; did you mean 'learning_rate'?"),
        ("learning_rate", "expected NAME=VALUE, e.g. learning_rate=0.1"),
        ("learning_rate=", "expected NAME=VALUE"),
        ("learning_rate=-1", "learning_rate=-1; expected a number above 0"),
        ("learning_rate=nan", "expected a number above 0"),
        ("interactions=1.5", "expected a whole number from 1 on"),
        ("pairs=some", "pairs=some; expected all or last-click+1"),
        ("=0.1", "expected NAME=VALUE"),
        ("learner=a\nb", "expected one line without control characters"),
    ],
)
def test_refuses_what_no_header_may_hold(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=f"^--know: .*{re.escape(expected)}"):
        parse_facts([text])


def test_refuses_a_fact_that_is_given_twice_or_as_another_type() -> None:
    with pytest.raises(UsageError, match="pairs is given twice"):
        parse_facts(["pairs=all", "pairs=last-click+1"])
    with pytest.raises(UsageError, match="expected a number above 0"):
        checked_facts({"learning_rate": "fast"})


def test_given_facts_replace_those_of_the_header_and_nothing_else(tmp_path: Path) -> None:
    system = System(clients=4, rounds=1)
    written = foreign_trace.write(tmp_path / "t", foreign_trace.header(system), foreign_trace.records(system))
    trace = Trace.open(written)
    known = trace.with_facts({"learning_rate": 0.2})
    assert known.header.knowledge == {**trace.header.knowledge, "learning_rate": 0.2}
    assert known.trace_id == trace.trace_id
    first, again = next(trace.rounds()), next(known.rounds())
    assert first.messages.tobytes() == again.messages.tobytes()
    assert trace.with_facts({}) == trace
