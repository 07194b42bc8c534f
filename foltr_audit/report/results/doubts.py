"""Warnings about results of an attack that are impossible if the declared facts are right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.meaning import reads_backwards
from foltr_audit.utils.formatting import short


def doubt_rows(results: Sequence[AttackRow]) -> list[WarningRow]:
    """Warnings about attacks that are worse than they can be, a row each.

    An AUC significantly below one half is not due to chance. `map` weighs every click pattern by the declared
    step; where `lad`, which knows less, is clearly right more often on the same lists, that step is wrong.
    """
    attacks = [row for row in results if not row.baseline and row.found.auc.known]
    backwards = reads_backwards(attacks)
    texts = [*([] if backwards is None else [backwards]), *_map_below_lad(attacks)]
    return [WarningRow(warning=text) for text in texts]


def _map_below_lad(rows: Sequence[AttackRow]) -> Iterator[str]:
    for best in (row for row in rows if row.method == "map"):
        for other in (row for row in rows if row.method == "lad" and row.where == best.where):
            exact, better = best.found.exact, other.found.exact
            if exact.ci95 is not None and better.ci95 is not None and exact.ci95[1] < better.ci95[0]:
                yield (
                    f"map reads {short(exact.value)} of the lists with {best.where.click_model} clicks "
                    f"right, and lad, which needs fewer facts, {short(better.value)}: "
                    "the declared facts do not fit the messages"
                )
