"""Warnings about results of an attack that are impossible if the declared facts are right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.warning_codes import coded
from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.meaning import reads_backwards
from foltr_audit.utils.formatting import short


def doubt_rows(results: Sequence[AttackRow]) -> list[WarningRow]:
    """Warnings about attacks that are worse than they can be, a row each.

    An AUC significantly below one half is not due to chance. The strongest attack weighs every click pattern
    by the declared facts; where another attack that needs no more of them is clearly right more often on the
    same lists, they are wrong.
    """
    attacks = [row for row in results if not row.baseline and row.found.auc.known]
    backwards = reads_backwards(attacks)
    return [
        *([] if backwards is None else [WarningRow.of(coded("wrong sign", backwards))]),
        *(WarningRow.of(coded("weaker attack", text)) for text in _below_weaker(attacks)),
    ]


def _below_weaker(rows: Sequence[AttackRow]) -> Iterator[str]:
    every = {row.method: make_if_known(Attack, row.method) for row in rows}
    attacks = {name: attack for name, attack in every.items() if attack is not None}
    known = [row for row in rows if row.method in attacks]
    for best in (row for row in known if attacks[row.method].strongest):
        for other in (row for row in known if row.where == best.where):
            knows_less = attacks[other.method].needs < attacks[best.method].needs
            exact, better = best.found.exact, other.found.exact
            if not knows_less or exact.ci95 is None or better.ci95 is None:
                continue
            if exact.ci95[1] < better.ci95[0]:
                yield (
                    f"{best.method} reads {short(exact.value)} of the lists with {best.where.click_model} "
                    f"clicks right, and {other.method}, which needs fewer facts, {short(better.value)}: "
                    "the declared facts do not fit the messages"
                )
