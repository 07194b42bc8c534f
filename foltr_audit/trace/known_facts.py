"""Facts that a user states by hand, in the place of those in the header of a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from foltr_audit.errors import TraceError, UsageError, suggest_name
from foltr_audit.trace.facts import FACTS
from foltr_audit.trace.header import Fact, shortened
from foltr_audit.trace.reader import Trace
from foltr_audit.utils.rows import JsonValue

OPTION = "--know"


def parse_facts(texts: Sequence[str]) -> dict[str, Fact]:
    """Facts from texts `NAME=VALUE`; the values of a list are separated by `;`.

    >>> parse_facts(["learning_rate=.1", "pairs=all", "clip_without_pairs=no"])
    {'learning_rate': 0.1, 'pairs': 'all', 'clip_without_pairs': False}

    Raises:
        UsageError: a text of another form, a fact that does not exist or is given twice, or a value that
            the fact cannot have.
    """
    found: dict[str, Fact] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip().removeprefix("knowledge."), value.strip()
        if not equals or not name or not value:
            raise UsageError(f"{OPTION}: {shortened(text)}; expected NAME=VALUE, e.g. learning_rate=0.1")
        if not value.isprintable():
            raise UsageError(
                f"{OPTION}: {name}={shortened(value)}; expected one line without control characters"
            )
        if name in found:
            raise UsageError(f"{OPTION}: {name} is given twice")
        found[name] = _read(name, value)
    return found


def checked_facts(facts: Mapping[str, object]) -> dict[str, Fact]:
    """The same facts, if all of them exist and have values that they can have.

    Raises:
        UsageError: a fact that does not exist, or a value that it cannot have.
    """
    for name, value in facts.items():
        allowed = FACTS.get(name)
        if allowed is None:
            raise UsageError(f"{OPTION}: unknown fact {name!r}; {suggest_name(name, FACTS)}")
        if not allowed.fits(value):
            raise UsageError(f"{OPTION} {name}: {shortened(value)}; expected {allowed.values}")
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | list)}


def with_facts(trace: Trace, facts: Mapping[str, Fact]) -> Trace:
    """The trace as if its header held these facts too; they replace others of the same name, also in rounds.

    Raises:
        UsageError: facts that the rest of the header contradicts.
    """
    if not facts:
        return trace
    try:
        header = replace(trace.header, knowledge={**trace.header.knowledge, **facts})
    except TraceError as error:
        raise UsageError(f"{OPTION}: {error}") from error
    return replace(trace, header=header, given=trace.given | facts.keys())


def plain_facts(facts: Mapping[str, Fact]) -> dict[str, JsonValue]:
    """Facts as the values of a JSON object."""
    return {name: [*value] if isinstance(value, list) else value for name, value in facts.items()}


def _read(name: str, text: str) -> Fact:
    """The first reading of a text that the fact allows."""
    allowed = FACTS.get(name)
    if allowed is None:
        raise UsageError(f"{OPTION}: unknown fact {name!r}; {suggest_name(name, FACTS)}")
    for value in (_switch(text), _number(text), text, text.split(";")):
        if value is not None and allowed.fits(value):
            return value
    raise UsageError(f"{OPTION}: {name}={shortened(text)[1:-1]}; expected {allowed.values}")


def _switch(text: str) -> bool | None:
    return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower())


def _number(text: str) -> int | float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    return int(text) if text.isdecimal() else number
