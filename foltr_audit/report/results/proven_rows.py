"""Rows of what is proven for the observer of attacks: of a round, and of the whole run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from foltr_audit.privacy.accounting.run_bound import ProvenView
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.base import Setting
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class ProvenRow(ResultRow):
    """What is proven for one observer of a setting.

    Attributes:
        setting: what was run; its `sees` says what this observer sees.
        view: the same by name.
        unit: what neighbouring inputs of the bound for a round differ in.
        eps_proven, delta: the bound for one round; an infinite epsilon where nothing is proven.
        how: how it was computed, or why there is none.
        run: what is proven for all rounds together; columns begin with `run_`.
    """

    setting: Setting = column(embedded=True)
    view: str
    unit: str
    eps_proven: float
    delta: float
    how: str
    run: RunBoundRow = column("run_", embedded=True)


def proven_rows(proven: Iterable[ProvenView], setting: Setting) -> Iterator[ProvenRow]:
    """One row per observer."""
    for one in proven:
        yield ProvenRow(
            setting=replace(setting, sees=sees(one.view)),
            view=one.view,
            unit=one.unit,
            eps_proven=one.once.epsilon,
            delta=one.once.delta,
            how=one.once.how,
            run=RunBoundRow.of(one.run),
        )
