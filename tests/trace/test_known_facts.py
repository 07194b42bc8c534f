"""Facts that are given by hand: how they are read, which are refused, and what they replace."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from foltr_audit.errors import UsageError
from foltr_audit.trace import Fact, Trace
from foltr_audit.trace.known_facts import checked_facts, parse_facts, with_facts
from tests.fixtures import foreign_trace
from tests.fixtures.foreign_trace import System


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
    known = with_facts(trace, {"learning_rate": 0.2})
    assert known.header.knowledge == {**trace.header.knowledge, "learning_rate": 0.2}
    assert known.trace_id == trace.trace_id
    first, again = next(trace.rounds()), next(known.rounds())
    assert first.messages.tobytes() == again.messages.tobytes()
    assert with_facts(trace, {}) is trace
