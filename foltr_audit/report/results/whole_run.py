"""What is proven for the observer of attacks: of a round, and of the whole run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from foltr_audit.core.results import ProofRecord
from foltr_audit.privacy.accounting import RunBound
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.base import Setting
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class RunBoundRow(ResultRow):
    """What is proven for all rounds of a run together; an infinite epsilon where nothing is.

    Attributes:
        unit: what neighbouring inputs differ in: a `client`, or a `query`, which covers all clicks of one
            client.
        rounds: rounds of the run.
        sampled: share of the clients that may take part in a round and do. The server knows which.
        eps, delta: the bound.
        eps_always: epsilon, at the same delta, of a client that takes part in every round in which it may.
        how: how the bound was computed, or why there is none.
    """

    unit: str
    rounds: int
    sampled: float
    eps: float
    delta: float
    eps_always: float
    how: str

    @classmethod
    def of(cls, bound: RunBound) -> RunBoundRow:
        return cls(
            unit=bound.unit,
            rounds=bound.rounds,
            sampled=bound.sampled,
            eps=bound.upper.epsilon,
            delta=bound.upper.delta,
            eps_always=bound.always.epsilon,
            how=bound.upper.how,
        )

    @property
    def who(self) -> str:
        """Whom or what the bound protects, in words."""
        return "one client" if self.unit == "client" else "all clicks of one client"

    @property
    def of_clicks(self) -> str:
        """A note for a table whose bounds are of clients, where this one is not."""
        return "" if self.unit == "client" or math.isinf(self.eps) else " (clicks)"

    @property
    def text(self) -> str:
        """The bound in one line: for whom, how, and what it would be without sampling."""
        if math.isinf(self.eps):
            return f"run: none for {self.who}: {self.how}"
        delta = f", delta {self.delta:g}" if self.delta else ""
        always = "" if self.sampled == 1 else f"; {self.eps_always:.4g} for a client in all of them"
        return f"run: {self.eps:.4g} for {self.who} over {self.rounds} rounds{delta}: {self.how}{always}"


def run_caption(rows: Iterable[RunBoundRow]) -> str:
    """What the number in a column `run` assumes."""
    bounds = list(rows)
    rounds = " or ".join(str(count) for count in sorted({row.rounds for row in bounds}))
    deltas = sorted({row.delta for row in bounds if row.delta and math.isfinite(row.eps)})
    delta = f", delta {' or '.join(f'{number:g}' for number in deltas)}" if deltas else ""
    share = sorted({row.sampled for row in bounds})
    drawn = " or ".join(f"{100 * part:.3g} %" for part in share)
    cohorts = (
        "all clients in each" if share == [1.0] else f"{drawn} of the clients in each, known to the server"
    )
    clicks = "; clicks: for all clicks of one client" if any(row.of_clicks for row in bounds) else ""
    return f"run: proven for one client over {rounds} rounds ({cohorts}{delta}){clicks}"


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


def proven_rows(proven: Iterable[ProofRecord], setting: Setting) -> Iterator[ProvenRow]:
    """One row per observer."""
    for bound in proven:
        yield ProvenRow(
            setting=replace(setting, sees=sees(bound.view)),
            view=bound.view,
            unit=bound.unit,
            eps_proven=bound.upper.epsilon,
            delta=bound.upper.delta,
            how=bound.upper.how,
            run=RunBoundRow.of(cast(RunBound, bound.whole_run)),
        )
