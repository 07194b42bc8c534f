"""The tables of `compare`, for a terminal and for a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_codes import CodedWarning
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.attack_rows import AttackMetrics
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import (
    ClaimRow,
    ComparedAttackRow,
    ComparedWarningRow,
    CompareRow,
)
from foltr_audit.report.results.compare_worlds import WorldRows, worlds
from foltr_audit.report.results.decision import Decision, decide
from foltr_audit.report.results.whole_run import run_caption
from foltr_audit.report.results.wording import (
    CHOSEN,
    FIXED,
    FRONT,
    PROMISE,
    counted,
    evaluated_part,
    measured,
)
from foltr_audit.report.tables.columns import dataset_line, eps_text, short_column
from foltr_audit.report.tables.compare_columns import (
    BYTES,
    NO_SUM,
    NONE,
    ONLINE,
    WorldColumns,
    claimed_cell,
    known_cell,
    name_column,
    verdict_column,
)
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.formatting import epsilon, short
from foltr_audit.utils.rows import UNKNOWN, Estimate, JsonValue, ResultRow

if TYPE_CHECKING:
    from rich.console import Console


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
