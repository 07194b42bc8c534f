"""What proofs promise, next to what attacks reached: the line `any attack` of tables, and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.results.attack_rows import AttackMetrics, AttackRow, PromiseRow
from foltr_audit.report.results.wording import delta_text
from foltr_audit.report.tables.columns import MetricLine, first_of_settings
from foltr_audit.utils.formatting import epsilon, short
from foltr_audit.utils.rows import UNKNOWN, Estimate

ANY_ATTACK = "any attack"
"""Name of the line with the most that is possible."""

EXPLAINED = (
    "any attack: the most that the proof allows, for an attacker who knows the grades and how users click"
)
"""The caption of a table with such a line."""


def with_ceilings(rows: Sequence[AttackRow]) -> list[AttackRow]:
    """The rows, and for each setting with a proof a line with the most that any attack can reach."""
    return [*rows, *map(_ceiling_row, first_of_settings(row for row in rows if row.ceiling.known))]


def _ceiling_row(row: AttackRow) -> AttackRow:
    unknown = {each.name: UNKNOWN for each in fields(AttackMetrics) if _is_estimate(row.found, each.name)}
    most = {each.name: Estimate(getattr(row.ceiling, each.name)) for each in fields(row.ceiling)}
    found = replace(row.found, **{**unknown, **most})  # type: ignore[arg-type]
    return replace(row, method=ANY_ATTACK, baseline=True, found=found)


def _is_estimate(found: AttackMetrics, name: str) -> bool:
    return isinstance(getattr(found, name), Estimate)


def ceiling_line(ceiling: float, eps_claimed: float, columns: int) -> list[MetricLine]:
    """The line of a table about secrets that have one accuracy, in the first of its columns; none without."""
    if math.isnan(ceiling):
        return []
    values = (Estimate(ceiling), *[UNKNOWN] * (columns - 1))
    return [MetricLine(method=ANY_ATTACK, eps_claimed=eps_claimed, values=values)]


def promise_lines(rows: Sequence[PromiseRow]) -> Iterator[str]:
    """A sentence on what is proven for one interaction, for each chain of a world."""
    found = {row.setting.defense: row for row in rows if row.unit == "interaction"}
    for defense, row in found.items():
        sentence = _sentence(row)
        yield f"{defense}: {sentence}" if len(found) > 1 else sentence[0].upper() + sentence[1:]


def _sentence(row: PromiseRow) -> str:
    if math.isinf(row.eps_proven):
        sees = with_article(row.sees)
        return f"nothing is proven for {row.about}, where the server sees {sees}: {row.how}"
    delta = f" ({delta_text(row.delta)})" if row.delta else ""
    return (
        f"proven for {row.about}: epsilon {epsilon(row.eps_proven)}{delta}, so no attack tells two "
        f"possibilities apart with an AUC above {short(row.auc)} ({row.how})"
    )
