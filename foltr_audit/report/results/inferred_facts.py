"""What the messages of traces tell of their facts: one row per trace and fact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from foltr_audit.judge.fact_inference import FactEstimate
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.trace import Fact, TraceHeader
from foltr_audit.trace.facts import FACTS
from foltr_audit.trace.known_facts import facts_text, plain_facts
from foltr_audit.utils.rows import JsonValue, ResultRow


@dataclass(frozen=True, kw_only=True)
class InferredFactRow(ResultRow):
    """What messages tell of one fact; see `FactEstimate`.

    Attributes:
        trace: the folder.
        declared: what the header says; None where it says nothing.
        estimate: what the messages say; None where nothing can be told.
        agrees: whether both are the same; None where one is missing.
        source: what was looked at, and the error of the estimate.
    """

    trace: str
    fact: str
    declared: JsonValue
    estimate: JsonValue
    agrees: bool | None
    sure: str
    source: str


@dataclass(frozen=True, kw_only=True)
class InferredFactsReport(PlainReport):
    """The result of `trace infer`.

    Attributes:
        know: for each trace, the options that state the estimates which its header lacks or contradicts.
        results: one row per trace and fact.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/trace-infer/1"

    know: Mapping[str, JsonValue]
    results: tuple[InferredFactRow, ...]

    @classmethod
    def of(cls, found: Iterable[tuple[str, TraceHeader, Sequence[FactEstimate]]]) -> Self:
        """The report on traces: folder, header and estimates of each."""
        know: dict[str, JsonValue] = {}
        rows: list[InferredFactRow] = []
        for folder, header, estimates in found:
            stated = _stated(header)
            mine = [_row(folder, stated, one) for one in estimates]
            new: dict[str, Fact] = {
                one.fact: one.value
                for one, row in zip(estimates, mine, strict=True)
                if one.value is not None and one.fact in FACTS and not row.agrees
            }
            know[folder] = facts_text(new)
            rows += mine
        return cls(know=know, results=tuple(rows))


def _stated(header: TraceHeader) -> dict[str, JsonValue]:
    """What the header says, by name; its number format is a field, and a clip without a norm is of L2."""
    stated = plain_facts(header.knowledge)
    if header.kind != "masked":
        stated["number_format"] = header.number_format
    if "clip_norm" in stated:
        stated.setdefault("clip_ord", 2)
    return stated


def _row(folder: str, stated: Mapping[str, JsonValue], one: FactEstimate) -> InferredFactRow:
    declared = stated.get(one.fact)
    value = None if one.value is None else plain_facts({one.fact: one.value})[one.fact]
    return InferredFactRow(
        trace=folder,
        fact=one.fact,
        declared=declared,
        estimate=value,
        agrees=one.agrees(declared),
        sure=one.sure,
        source=one.source,
    )
