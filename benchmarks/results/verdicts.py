"""Whether a published claim holds, from the intervals of stored rows.

A claim holds if every judged row does: its whole 95 % interval keeps the bound, or lies above that of the
other row, or has the published number in it. It does not hold if the whole interval of one row is on the
other side. Everything else, such as an interval that a bound cuts, cannot be said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from benchmarks.results.cells import interval_at, matches, shown
from benchmarks.results.declarations import VERDICTS, DeclaredTable, PublishedClaim, Row, TableColumn

HOLDS, FAILS, OPEN = VERDICTS


class ClaimVerdict(NamedTuple):
    """The verdict on a claim.

    Attributes:
        about: the value of the claim's key `by` that it is about; empty if the claim has none.
        verdict: one of `VERDICTS`.
        found: the judged values in words, and how many rows agree if not all do.
    """

    about: str
    verdict: str
    found: str


def verdicts(claim: PublishedClaim, table: DeclaredTable, rows: Sequence[Row]) -> list[ClaimVerdict]:
    """The verdict on a claim, one for each value of its key `by` in the rows of its table."""
    if not claim.by:
        return [_verdict("", claim, table, rows)]
    values = dict.fromkeys(str(row[claim.by]) for row in rows if matches(row, claim.where))
    narrowed = {value: replace(claim, where={**claim.where, claim.by: value}) for value in values}
    return [_verdict(value, one, table, rows) for value, one in narrowed.items()]


def _verdict(about: str, claim: PublishedClaim, table: DeclaredTable, rows: Sequence[Row]) -> ClaimVerdict:
    verdict = judge(claim, table, rows)
    words = [found_range(claim, rows), claim.note]
    if claim.by and verdict != HOLDS:
        every = [_judge_row(claim, row, table, rows) for row in rows if matches(row, claim.where)]
        words.insert(1, f"({every.count(HOLDS)} of {len(every)} agree)")
    return ClaimVerdict(about, verdict, " ".join(filter(None, words)))


def judge(claim: PublishedClaim, table: DeclaredTable, rows: Sequence[Row]) -> str:
    """One of `VERDICTS`, from the rows of the claim's table."""
    if claim.verdict:
        return claim.verdict
    found = [_judge_row(claim, row, table, rows) for row in rows if matches(row, claim.where)]
    if FAILS in found:
        return FAILS
    return HOLDS if found and set(found) == {HOLDS} else OPEN


def _judge_row(claim: PublishedClaim, row: Row, table: DeclaredTable, rows: Sequence[Row]) -> str:
    here = interval_at(row, claim.interval)
    if here is None:
        return OPEN
    low, high = here
    if claim.equals is not None:
        return HOLDS if low <= claim.equals <= high else FAILS
    if claim.at_most is not None:
        return _side(high <= claim.at_most, low > claim.at_most)
    if claim.at_least is not None:
        return _side(low >= claim.at_least, high < claim.at_least)
    rival = _other(claim, row, table, rows)
    other = None if rival is None else interval_at(rival, claim.interval)
    return OPEN if other is None else _side(low > other[1], high <= other[0])


def _side(holds: bool, fails: bool) -> str:
    return HOLDS if holds else FAILS if fails else OPEN


def _other(claim: PublishedClaim, row: Row, table: DeclaredTable, rows: Sequence[Row]) -> Row | None:
    """The row that differs from a judged one as `above` says, and in nothing else that it is about."""
    same = {key: row.get(key) for key in table.about} | dict(claim.above or {})
    found = [other for other in rows if matches(other, same)]
    return found[0] if len(found) == 1 else None


def found_range(claim: PublishedClaim, rows: Sequence[Row]) -> str:
    """The judged values in words: the lowest and the highest of them."""
    values = [row.get(claim.value) for row in rows if claim.value and matches(row, claim.where)]
    numbers = [float(value) for value in values if isinstance(value, int | float) or value == "inf"]
    if not numbers:
        return ""
    column = TableColumn(head="", value=claim.value, digits=claim.digits)
    low, high = shown(min(numbers), column), shown(max(numbers), column)
    return low if low == high else f"{low} to {high}"
