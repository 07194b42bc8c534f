"""The columns of the results of a comparison; every table of them is a selection of these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.privacy.observer_views import VIEWS, sees
from foltr_audit.report.results.compare_rows import CompareRow
from foltr_audit.report.results.compare_summary import LEAST, StrongestLeak, find_leaks, p_value
from foltr_audit.report.results.compare_worlds import WorldRows
from foltr_audit.report.results.decision import Decision
from foltr_audit.report.results.wording import delta_text, short_method
from foltr_audit.report.tables.columns import eps_text, estimate_cell, name_lines
from foltr_audit.report.tables.table import Cell, Column, Mark
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import Estimate

R = TypeVar("R")

NONE = Cell("-", mark="dim")

NO_SUM = "no sum"
"""In the place of an AUC where attacks had nothing to read."""

ONLINE = "online\nnDCG@10"


def name_column(header: str, name: Callable[[R], str]) -> Column[R]:
    """The name of a defense."""
    return Column(header, name, "name", narrow=name_lines)


def claimed_cell(eps: float, delta: float) -> Cell:
    """A claimed epsilon, and below it its delta."""
    return Cell("none", mark="dim") if math.isinf(eps) else Cell(eps_text(eps), delta_text(delta))


def known_cell(found: Estimate) -> Cell:
    """A number with its interval below it; dim where it is not known."""
    return estimate_cell(found) if found.known else NONE


def attack_column(group: str = "") -> Column[CompareRow]:
    """The best attack."""
    return Column("attack", lambda row: row.attack or NONE, "name", group, narrow=short_method)


WITHOUT = Column[CompareRow]("without", lambda row: _without(row), group="best attack")
"""The best guess that reads no message."""


def _without(row: CompareRow) -> Cell:
    if row.baseline is None or row.baseline_auc is None:
        return NONE
    return Cell(short(row.baseline_auc), short_method(row.baseline))


PROMISED = Column[CompareRow](
    "promised",
    lambda row: NONE if row.ceiling_auc is None else Cell(short(row.ceiling_auc)),
    group="best attack",
)
"""The largest AUC of any attack on a click, by proof."""


def difference_column(group: str = "") -> Column[CompareRow]:
    """The difference in offline nDCG@10 to no defense."""
    return Column("difference", lambda row: difference_cell(row.ndcg_difference, row.ndcg_p), group=group)


def difference_cell(difference: Estimate, p: float | None) -> Cell:
    """A difference to no defense with its interval; bad where it is significant and below."""
    if not difference.known:
        return NONE
    below = "" if difference.ci95 is None else " to ".join(map(_signed, difference.ci95))
    bad = p is not None and p < LEAST and difference.value < 0
    return Cell(_signed(difference.value), below, "bad" if bad else "")


def _signed(value: float) -> str:
    sign = "" if short(abs(value)) == ".000" else "−" if value < 0 else "+"  # noqa: RUF001
    return sign + short(abs(value))


BYTES = Column[CompareRow](
    "bytes",
    lambda row: NONE if row.bytes_per_client is None else f"{row.bytes_per_client:,.0f}",
    group="a client",
)
"""What a client sends in a round."""


class WorldColumns:
    """The columns of the results of one world."""

    def __init__(self, world: WorldRows) -> None:
        self.world = world
        self._leaks = {leak.row.setting.key: leak for leak in find_leaks(world)}

    @property
    def name(self) -> Column[CompareRow]:
        """What a row is called."""
        return name_column("defense", self.world.called)

    @property
    def claim(self) -> Column[CompareRow]:
        """The claim, and below it what audits say of it, by what the server sees."""
        return Column("its claim", _claim, "words")

    @property
    def auc(self) -> Column[CompareRow]:
        """The AUC of the best attack: bad where it is shown to beat every guess without a message."""
        return Column("AUC", lambda row: _auc(row, self._leaks.get(row.setting.key)), group="best attack")

    @property
    def attack(self) -> list[Column[CompareRow]]:
        """The best attack, its metrics, and the best guess without a message."""
        metrics: dict[str, Callable[[CompareRow], Estimate]] = {
            "TPR@1%": lambda row: row.tpr_at_1,
            "accuracy": lambda row: row.accuracy,
            "precision": lambda row: row.precision,
            "recall": lambda row: row.recall,
            "F1": lambda row: row.f1,
        }
        others = [
            Column[CompareRow](header, _known(number), group="best attack")
            for header, number in metrics.items()
        ]
        return [attack_column("best attack"), self.auc, PROMISED, *others, WITHOUT]

    @property
    def offline(self) -> list[Column[CompareRow]]:
        """Offline nDCG@10, and how it differs from no defense."""

        def difference(row: CompareRow) -> Cell:
            return difference_cell(row.ndcg_difference, self.world.p(row))

        return [
            Column("nDCG@10", lambda row: known_cell(row.ndcg), group="offline"),
            Column("difference", difference, group="offline"),
            Column("p", lambda row: p_value(self.world.p(row)), group="offline"),
        ]

    @property
    def online(self) -> list[Column[CompareRow]]:
        """Online nDCG@10, and how it differs from no defense."""
        return [
            Column(ONLINE, lambda row: known_cell(row.online_mean), group="online"),
            Column(
                "difference",
                lambda row: difference_cell(row.online_difference, None),
                group="online",
                only="page",
            ),
            Column("p", lambda row: p_value(row.online_p), group="online", only="page"),
        ]

    @property
    def clients(self) -> list[Column[CompareRow]]:
        """What a client sends, and the groups of clients that are worst off, where clients differ."""
        if not any(row.groups for row in self.world.results):
            return [BYTES]
        return [
            BYTES,
            Column(
                "served worst",
                lambda row: _group(row.worst_served_group, row.worst_served_online),
                "words",
                "a client",
            ),
            Column(
                "hit hardest",
                lambda row: _group(row.worst_attacked_group, row.worst_attacked_auc),
                "words",
                "a client",
            ),
        ]

    @property
    def epsilons(self) -> list[Column[CompareRow]]:
        """Epsilons of each audited view: proven of a message and of the run, and measured."""
        views = [view for view in VIEWS if any(view in row.audits for row in self.world.results)]
        return [column for view in views for column in (_proven(view), _run(view), _measured(view))]

    @property
    def front(self) -> Column[CompareRow]:
        """Whether a row is on the front, and by which rows it is dominated."""
        return Column("front", self._front, "words")

    def _front(self, row: CompareRow) -> Cell:
        if row.pareto is None:
            return NONE
        if row.pareto:
            return Cell("on the front")
        if not row.dominated_by:
            return Cell("not on the front", "claim refuted", "bad")
        return Cell("dominated", f"by {'; '.join(self.world.rivals(row))}", "dim")


_VERDICT_MARKS: dict[str, Mark] = {
    "recommended": "good",
    "leaks": "bad",
    "false claim": "bad",
    "no bound": "warn",
    "costs too much": "warn",
    "too few lists": "warn",
    "not tested": "dim",
}


def verdict_column(decision: Decision) -> Column[CompareRow]:
    """The verdict on each defense, over all worlds."""

    def cell(row: CompareRow) -> Cell:
        text = decision.judgement(row)
        return Cell(text, mark=_VERDICT_MARKS.get(text, ""))

    return Column("verdict", cell, "name")


def _known(number: Callable[[CompareRow], Estimate]) -> Callable[[CompareRow], Cell]:
    return lambda row: known_cell(number(row))


def _group(name: str | None, value: float | None) -> Cell:
    return NONE if name is None else Cell(name, short(value))


def _proven(view: str) -> Column[CompareRow]:
    def cell(row: CompareRow) -> Cell:
        audit = row.audits.get(view)
        return NONE if audit is None else Cell(eps_text(audit.eps_proven))

    return Column("proven", cell, group=f"epsilon, {sees(view)}")


def _run(view: str) -> Column[CompareRow]:
    def cell(row: CompareRow) -> Cell:
        audit = row.audits.get(view)
        return NONE if audit is None else Cell(eps_text(audit.run.eps) + audit.run.of_clicks)

    return Column("run", cell, group=f"epsilon, {sees(view)}")


def _measured(view: str) -> Column[CompareRow]:
    def cell(row: CompareRow) -> Cell:
        audit = row.audits.get(view)
        if audit is None:
            return NONE
        mark: Mark = "bad" if audit.verdict == "refuted" else ""
        return Cell(eps_text(audit.eps_measured), f"of {eps_text(audit.eps_ceiling)}", mark)

    return Column("lower bound", cell, group=f"epsilon, {sees(view)}")


def _claim(row: CompareRow) -> Cell:
    verdicts, eps = row.verdicts, row.setting.eps_claimed
    if math.isinf(eps):
        return Cell("none", mark="dim")
    delta = delta_text(row.delta)
    claimed = f"epsilon {eps_text(eps)}" + (f" ({delta})" if delta else "")
    if not verdicts:
        return Cell(claimed, "not checked")
    bad = [sees(view) for view, verdict in verdicts.items() if verdict in (*FALSE, CONTRADICTION)]
    if bad:
        return Cell(claimed, f"false: {'; '.join(bad)}", "bad")
    if all(verdict == "proven" for verdict in verdicts.values()):
        return Cell(claimed, f"proven: {'; '.join(map(sees, verdicts))}", "good")
    return Cell(claimed, "not refuted, not proven")


def _auc(row: CompareRow, leak: StrongestLeak | None) -> Cell:
    found = Cell(NO_SUM) if row.unread else known_cell(row.auc)
    if leak is None or leak.kind == "unknown":
        return found
    return found._replace(mark="good" if leak.held else "bad" if leak.bound is None else "")
