"""A comparison as tables, and its short answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rich.markup import escape

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.privacy.observer_views import VIEWS, sees
from foltr_audit.report.render.terminal import MOST_ROWS, BriefAnswer, first_rows, print_table
from foltr_audit.report.results.attack_rows import AttackMetrics
from foltr_audit.report.results.compare_rows import (
    ClaimRow,
    ComparedAttackRow,
    ComparedWarningRow,
    CompareRow,
)
from foltr_audit.report.results.compare_summary import (
    LEAST,
    StrongestLeak,
    WorldRows,
    describe_progress,
    find_leaks,
    p_value,
    worlds,
)
from foltr_audit.report.results.decision import Decision, decide
from foltr_audit.report.results.whole_run import run_caption
from foltr_audit.report.results.wording import (
    CHOSEN,
    FIXED,
    FRONT,
    PROMISE,
    counted,
    delta_text,
    evaluated_part,
    measured,
    short_method,
)
from foltr_audit.report.tables.columns import dataset_line, eps_text, estimate_cell, name_lines, short_column
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Cell, Column, Mark, Table, make_table
from foltr_audit.utils.formatting import JsonValue, epsilon, short
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.report.results.compare import CompareReport


R = TypeVar("R")

NONE = Cell("-", mark="dim")

NO_SUM = "no sum"
"""In the place of an AUC where attacks had nothing to read."""

ONLINE = "online\nnDCG@10"


def name_column(header: str, name: Callable[[R], str]) -> Column[R]:
    return Column(header, name, "name", narrow=name_lines)


def claimed_cell(eps: float, delta: float) -> Cell:
    """A claimed epsilon, and below it its delta."""
    return Cell("none", mark="dim") if math.isinf(eps) else Cell(eps_text(eps), delta_text(delta))


def known_cell(found: Estimate) -> Cell:
    """A number with its interval below it; dim where it is not known."""
    return estimate_cell(found) if found.known else NONE


def attack_column(group: str = "") -> Column[CompareRow]:
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


def print_compare(report: CompareReport, console: Console) -> None:
    """The whole report: the decision, the leaks and costs in each world, then the claims and what holds."""
    decision = decide(report)
    for sentence in decision.sentences if decision else ():
        console.print(escape(sentence), highlight=False)
    if about := about_line(report):
        console.print(about)
    for line in server_lines(report):
        console.print(escape(line), highlight=False)
    if decision is not None:
        for world in worlds(report):
            _print_world(world, decision, console)
    if report.claims:
        console.print()
        print_table(claims_table(report.claims), console)
    console.print()
    for left in report.left_out:
        console.print(escape(f"left out: {left.learner}, {left.defense}: {left.why}"), highlight=False)
    for lost in report.failed:
        line = f"failed: {lost.defense}, {lost.click_model} clicks: {lost.why}"
        console.print(escape(line), style="red")


def _print_world(world: WorldRows, decision: Decision, console: Console) -> None:
    columns = WorldColumns(world)
    for table in (leaks_table(world, columns, decision), prices_table(world, columns)):
        console.print()
        print_table(table, console)
    for row in world.results:
        if row.dominated_by:
            line = f"  {row.setting.name}: dominated by {' and '.join(row.dominated_by)}"
            console.print(escape(line), highlight=False)


def about_line(report: CompareReport) -> str:
    """The data, learners and seed; empty where no cell is done."""
    if report.dataset is None:
        return ""
    spec = report.config.get("spec")
    seeded = {"seed": Spec().seed, **(spec if isinstance(spec, dict) else {})}
    return dataset_line(
        report.dataset, seeded, [(row.setting.learner, row.setting.pdgd) for row in report.results]
    )


def server_lines(report: CompareReport) -> list[str]:
    """The server that cheats in all runs, if one does."""
    return [f"server {report.server}, also without a defense"] if report.server else []


def no_sum_lines(world: WorldRows) -> list[str]:
    """What `no sum` means, if a row lacks one."""
    return [text] if (text := _of_no_sum(world)) else []


def warnings_by_defense(rows: Sequence[ComparedWarningRow]) -> list[CodedWarning]:
    """Each warning once, after the defenses and epsilons that it is about."""
    found: dict[CodedWarning, dict[str, list[str]]] = {}
    for row in rows:
        of = row.name if "{" in row.alternative else row.alternative
        about = found.setdefault(row.coded, {}).setdefault(of, [])
        if row.eps is not None and of != row.name and epsilon(row.eps) not in about:
            about.append(epsilon(row.eps))
    return [
        warning.about(
            "; ".join(f"{name}, eps {', '.join(eps)}" if eps else name for name, eps in about.items())
        )
        for warning, about in found.items()
    ]


def leaks_table(world: WorldRows, columns: WorldColumns, decision: Decision) -> Table:
    """What the best attack finds, for a terminal."""
    about = _of_no_sum(world)
    return make_table(
        f"{_where(world)}: what an attack finds",
        [columns.name, *columns.attack, verdict_column(decision)],
        world.results,
        caption=f"attack: the one with the highest AUC of those that ran, {CHOSEN}; "
        f"promised: {PROMISE}; without: highest AUC of a guess that reads no message; "
        f"below each value: its 95 % interval{f'; {about}' if about else ''}; verdict: in all settings",
        spare=("accuracy", "F1", "TPR@1%", "promised", "without", "attack"),
    )


def prices_table(world: WorldRows, columns: WorldColumns) -> Table:
    """What a defense costs, for a terminal."""
    rows = world.results
    first = rows[0]
    over = ", interval over runs" if any(row.online_mean.ci95 for row in rows) else ""
    tests = counted(max(len(world.corrected), 1), "comparison")
    return make_table(
        f"{_where(world)}: what it costs",
        [columns.name, *columns.offline, *columns.online, *columns.clients],
        rows,
        caption=f"{counted(first.setting.runs, 'run')}; nDCG@10 on "
        f"{evaluated_part(row.evaluated_on for row in rows)}, and online (mean of rounds{over}); difference: "
        f"to no defense, with p of a paired t-test times {tests}; "
        f"interval of nDCG@10 and p: {FIXED}; ideal ranking {short(first.ceiling)}, untrained "
        f"{short(first.untrained)}; bytes: of a client in a round",
        spare=("bytes", "hit hardest", "served worst", ONLINE, "p"),
    )


def _of_no_sum(world: WorldRows) -> str:
    """What `no sum` means; empty where no row lacks one."""
    several = [row for row in world.results if row.runs_without_sum]
    parts = [f"{NO_SUM}: no round opened one, so that attacks had nothing to read"]
    parts += [
        f"under {world.called(row)} that is {row.runs_without_sum} of {row.setting.runs} runs"
        for row in several
        if not row.unread
    ]
    return "; ".join(parts) if several else ""


def _no_sum_sentence(world: WorldRows) -> str:
    text = _of_no_sum(world)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def _where(world: WorldRows) -> str:
    setting = world.results[0].setting
    at = f" on {setting.data}" if world.name else ""
    return f"{setting.click_model} clicks, scenario {setting.scenario}{at}"


def glance_table(world: WorldRows, decision: Decision, *, marked: bool = True) -> Table:
    """One row per defense: its claim, what the best attack reads, the quality of the ranker, the verdict.

    Args:
        world: the world of the defenses.
        decision: on the defenses of all worlds.
        marked: whether marks are shown as colours.
    """
    columns, part = WorldColumns(world), evaluated_part(row.evaluated_on for row in world.results)
    notes = (
        "Below a claim: where it is false or proven, by what the server sees. "
        "Below a value or in brackets: 95 % intervals. p: of a paired t-test, Bonferroni-corrected for the "
        f"tests of this table. nDCG@10 is of {part}; its intervals and p are {FIXED}. The difference is to "
        f"no defense. The best attack is {CHOSEN}."
    )
    notes += _no_sum_sentence(world)
    if marked:
        notes += (
            " An AUC is red where the attack is shown to beat every guess without a message, green where it "
            "is not shown to beat one by position or at random."
        )
    return make_table(
        _caption("Defenses at a glance", world),
        [columns.name, columns.claim, columns.auc, *columns.offline, BYTES, verdict_column(decision)],
        world.results,
        caption=notes,
    )


def everything_table(world: WorldRows) -> Table:
    """All columns of the results of a world."""
    columns, part = WorldColumns(world), evaluated_part(row.evaluated_on for row in world.results)
    claimed = Column[CompareRow](
        "claimed", lambda row: claimed_cell(row.setting.eps_claimed, row.delta), group="epsilon"
    )
    runs = Column[CompareRow]("runs", lambda row: str(row.setting.runs))
    return make_table(
        _caption("All columns", world),
        [
            *(columns.name, claimed, *columns.epsilons, *columns.attack, *columns.offline, *columns.online),
            *(*columns.clients, runs, columns.front),
        ],
        world.results,
        caption="Below or in brackets: 95 % intervals; of attacks and offline nDCG@10 by bootstrap over "
        f"queries, of online nDCG@10 over runs. The best attack is {CHOSEN}; without: the best guess that "
        f"reads no message; promised: {PROMISE}. An epsilon is of what the server sees, proven "
        f"of a message{_of_runs(world)}. Measured: with the most that this "
        "number of trials could show. Each holds on its own, not corrected for several. Differences are "
        f"to no defense. Offline nDCG@10 is of {part}; its intervals and p (paired t-test, "
        f"Bonferroni-corrected for the tests of this table) are {FIXED}; online p: over runs, not corrected. "
        "Clients: the group with the lowest online nDCG@10, and the one with the highest AUC of the best "
        f"attack. On the front of AUC and nDCG@10: {FRONT}.{_no_sum_sentence(world)}",
    )


def _of_runs(world: WorldRows) -> str:
    """What the proven epsilons of a run assume, if any view was audited."""
    runs = [audit.run for row in world.results for audit in row.audits.values()]
    return f"; {run_caption(runs)}" if runs else ""


def claims_table(claims: Sequence[ClaimRow]) -> Table:
    """Every claim that was checked, from both sides; a terminal names each defense once."""
    learners = len({row.learner for row in claims}) > 1
    scenarios = len({row.scenario for row in claims}) > 1
    units = list(dict.fromkeys(row.unit for row in claims))
    first = {id(row) for row, before in zip(claims, (None, *claims), strict=False) if not _alike(row, before)}

    def name(row: ClaimRow) -> str:
        parts = [row.learner if learners else "", row.name, row.scenario if scenarios else ""]
        return ", ".join(part for part in parts if part)

    def name_once(row: ClaimRow) -> str:
        return name(row) if id(row) in first else ""

    def number(header: str, value: Callable[[ClaimRow], float | None]) -> Column[ClaimRow]:
        return Column(header, lambda row: _eps(value(row)))

    return make_table(
        f"epsilon for one {' or '.join(units)} in one message: claimed, and what holds",
        [
            replace(name_column("defense", name), only="page"),
            replace(name_column("defense", name_once), only="terminal"),
            Column("server sees", lambda row: row.sees, "name"),
            Column("differs", lambda row: row.unit, "name", only=None if len(units) > 1 else "page"),
            Column("pair", lambda row: row.canary, "words", only="page"),
            Column("claimed", lambda row: claimed_cell(row.eps_claimed, row.delta)),
            number("proven", lambda row: row.eps_upper),
            Column("run", lambda row: eps_text(row.run.eps) + row.run.of_clicks),
            number("exact\nloss", lambda row: row.eps_exact),
            number("lower\nbound", lambda row: row.eps_lower),
            number("at most", lambda row: row.eps_ceiling),
            Column("verdict", lambda row: verdict_cell(row.eps_claimed, row.verdict), "name", narrow=_by),
            Column("why", lambda row: row.why, "words", only="page"),
        ],
        claims,
        caption="proven: an upper bound by accounting; "
        f"{run_caption(row.run for row in claims)}; "
        "exact loss: of the pair that was played, where it has a formula; lower bound: from trials with "
        "that pair, and at most: the most that so many can show, "
        f"{measured(claims[0].confidence)}; a claim below the exact loss or the lower bound is false",
        spare=("at most", "run", "exact\nloss", "proven", "claimed"),
    )


def _alike(row: ClaimRow, other: ClaimRow | None) -> bool:
    """Whether two claims are of the same defense and world."""
    if other is None:
        return False
    return (row.learner, row.scenario, row.name) == (other.learner, other.scenario, other.name)


def _by(text: str) -> str:
    return text.replace("by ", "by\n")


def _eps(value: float | None) -> Cell:
    return NONE if value is None else Cell(eps_text(value))


_Guess = tuple[CompareRow, ComparedAttackRow]
"""The result of a setting, and a guesser on it."""


def attacks_table(world: WorldRows) -> Table:
    """Every guesser on every defense of a world."""

    def method(pair: _Guess) -> Cell:
        row = pair[1]
        return Cell(row.method, "needs no message", "dim") if row.baseline else Cell(row.method)

    def metric(header: str, number: Callable[[AttackMetrics], Estimate]) -> Column[_Guess]:
        return Column(header, lambda pair: known_cell(number(pair[1].found)))

    return make_table(
        _caption("Every attack", world),
        [
            name_column("defense", lambda pair: world.called(pair[0])),
            Column("method", method, "name"),
            metric("accuracy", lambda found: found.accuracy),
            metric("precision", lambda found: found.precision),
            metric("recall", lambda found: found.recall),
            metric("F1", lambda found: found.f1),
            metric("AUC", lambda found: found.auc),
            metric("TPR at 1 % FPR", lambda found: found.tpr_at_1),
            metric("exact lists", lambda found: found.exact),
            Column("lists", lambda pair: str(pair[1].found.lists)),
        ],
        [(row, one) for row in world.results for one in world.attacks_on(row)],
    )


_GroupLine = tuple[CompareRow, str, float | None, Estimate]
"""The result of a setting, a group of clients, its online nDCG@10, and the AUC of the best attack on it."""


def groups_table(world: WorldRows) -> Table | None:
    """How groups of clients are served and attacked; None where clients do not differ."""
    lines = list(_group_lines(world))
    if not lines:
        return None
    columns: list[Column[_GroupLine]] = [
        name_column("defense", lambda line: world.called(line[0])),
        Column("group", lambda line: line[1], "words"),
        short_column("online nDCG@10", lambda line: line[2]),
        Column("AUC of the best attack", lambda line: known_cell(line[3])),
    ]
    return make_table(_caption("Groups of clients, served worst first", world), columns, lines)


def _group_lines(world: WorldRows) -> Iterator[_GroupLine]:
    for row in world.results:
        hit = {one.found.group: one.found.auc.own for one in world.groups_of(row)}
        served = {one.group: one.online_mean for one in world.served_under(row)}
        for name in dict.fromkeys((*served, *hit)):
            yield row, name, served.get(name), hit.get(name, UNKNOWN)


def _caption(text: str, world: WorldRows) -> str:
    return f"{text}: {world.name}" if world.name else text


def gap_tables(report: CompareReport) -> list[Table]:
    """What went wrong or was left out; only what there is."""
    where = {"defense": "defense", "learner": "learner"}
    cells = {"defense": "name", "kind": "kind", "clicks": "click_model", "scenario": "scenario"}
    failed = {**where, "clicks": "click_model", "run": "run", "why": "why"}
    found = [
        table_of_rows("Warnings", report.warnings, {"defense": "name", "code": "code", "warning": "warning"}),
        table_of_rows("Left out", report.left_out, {**where, "why it cannot be": "why"}),
        table_of_rows("Failed", report.failed, failed),
        table_of_rows("Not done yet", report.unfinished, {**cells, "done": "done", "of": "cells"}),
    ]
    return [table for table in found if table.lines]


def table_of_rows(title: str, rows: Iterable[ResultRow], names: Mapping[str, str]) -> Table:
    """Some columns of rows as text, by their headers."""

    def column(header: str, name: str) -> Column[Mapping[str, JsonValue]]:
        return Column(header, lambda row: str(row.get(name, "-")), "words")

    return make_table(title, [column(*pair) for pair in names.items()], [row.plain() for row in rows])


def print_brief_compare(report: CompareReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer; where no cell is done the whole report, which says why."""
    answer = brief_compare(report)
    if answer is None:
        print_compare(report, console)
    else:
        answer.print(console, quiet=quiet)


def brief_compare(report: CompareReport) -> BriefAnswer | None:
    """The short answer; None where no cell is done."""
    decision = decide(report)
    if decision is None:
        return None
    every = worlds(report)
    world = max(every, key=lambda one: _auc_of(decision, one))
    shown = _shown(world.results, decision)
    rows, more = first_rows(shown, "rows")
    rest = len(world.results) - len(shown)
    others = [one.name for one in every if one is not world]
    left_out = [
        *others,
        *([f"{rest} rows of larger epsilons"] if rest else []),
        *more,
        "every attack metric, p-values and the checks of claims",
    ]
    failed = [f"failed: {one.defense}, {one.click_model} clicks: {one.why}" for one in report.failed]
    return BriefAnswer(
        conclusion=(*describe_progress(report), *decision.sentences),
        about=about_line(report),
        table=_table(world, rows, decision),
        notes=(*server_lines(report), *no_sum_lines(world), *failed),
        left_out=tuple(left_out),
    )


def _auc_of(decision: Decision, world: WorldRows) -> float:
    """How well the best attack does in a world: on the recommended defense, or on the best one."""
    chosen = decision.best.rows[0].setting.key if decision.best else None
    rows = [row for row in world.results if row.auc.known and chosen in (None, row.setting.key)]
    return min((row.auc.value for row in rows), default=0.0)


def _shown(rows: Sequence[CompareRow], decision: Decision) -> list[CompareRow]:
    """All rows, or if there are too many those of the smallest epsilon and the recommended one."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    least = min((row.setting.eps for row in rows if row.setting.eps is not None), default=None)
    return [
        row for row in rows if row.setting.eps in (None, least) or decision.judgement(row) == "recommended"
    ]


def _table(world: WorldRows, rows: Sequence[CompareRow], decision: Decision) -> Table:
    setting = rows[0].setting

    def auc(row: CompareRow) -> Cell:
        return Cell(NO_SUM) if row.unread else known_cell(row.auc)

    columns: list[Column[CompareRow]] = [
        name_column("defense", world.called),
        Column("claimed", lambda row: claimed_cell(row.setting.eps_claimed, 0.0)),
        Column("AUC", auc),
        Column("nDCG@10", lambda row: estimate_cell(row.ndcg)._replace(below="")),
        Column(
            "difference", lambda row: difference_cell(row.ndcg_difference, world.p(row))._replace(below="")
        ),
        BYTES,
        verdict_column(decision),
    ]
    return make_table(
        f"{setting.click_model} clicks, scenario {setting.scenario}",
        columns,
        rows,
        caption="claimed: epsilon; AUC of the best attack, and its 95 % interval; difference of nDCG@10 "
        "to no defense; bytes that a client sends in a round",
        spare=("bytes", "claimed", "difference"),
    )
