"""The short answer of `attack`: the strongest attack, beside guesses that read no message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.base import UtilityRow
from foltr_audit.report.results.fact_warnings import print_facts
from foltr_audit.report.results.meaning import describe_results, strongest_attack
from foltr_audit.report.results.settings import differing
from foltr_audit.report.tables import attack_details as details
from foltr_audit.report.tables.attack import print_attack, print_named_queries
from foltr_audit.report.tables.brief.short_answer import MOST_ROWS, BriefAnswer, first_rows
from foltr_audit.report.tables.columns import (
    dataset_line,
    describe_world,
    estimate_column,
    group_by_world,
    method_columns,
    setting_columns,
    short_column,
    systems_of,
)
from foltr_audit.report.tables.promises import ANY_ATTACK, EXPLAINED, promise_lines, with_ceilings
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import epsilon, short

if TYPE_CHECKING:
    from rich.console import Console


def print_brief_attack(report: AttackReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer; of a report that has no attack on clicks the whole report, which is short."""
    answer = brief_attack(report)
    if answer is None:
        print_attack(report, console)
        return
    if not quiet:
        known = report.config.get("known")
        print_facts(report.facts, console, known if isinstance(known, Mapping) else None)
    answer.print(console, quiet=quiet)
    if not quiet:
        print_named_queries(report, console)


def brief_attack(report: AttackReport) -> BriefAnswer | None:
    """The short answer; None for a report that has no attack on clicks, whose tables are short."""
    strongest = strongest_attack(report.results)
    if strongest is None:
        return None
    worlds = group_by_world(report.results)
    world = describe_world(strongest)
    rows, more = first_rows(_shown(worlds[world]), "rows")
    promised = group_by_world(report.promises).get(world, [])
    others = [_apart(name, world) for name in worlds if name != world]
    left_out = [*others, *more, "all guesses, metrics and intervals"]
    return BriefAnswer(
        conclusion=(describe_results(report.results),),
        about=dataset_line(report.dataset, report.config, systems_of(report.results)),
        table=_table(world, rows),
        notes=(
            *promise_lines(promised),
            *details.published_lines(group_by_world(report.published).get(world, [])),
            *details.refused_lines(group_by_world(report.refused).get(world, [])),
            *_utility_lines(report.utility),
        ),
        left_out=tuple(left_out),
    )


def _apart(name: str, world: str) -> str:
    """The parts of the description of a world that another one does not share."""
    return " and ".join(part for part in name.split(", ") if part not in world.split(", "))


def _shown(rows: Sequence[AttackRow]) -> list[AttackRow]:
    """For each setting its attacks, strongest first, the best guess and the most that any attack can reach.

    Where that is too much, only the strongest attack of each setting and the best guess.
    """
    settings: dict[str, list[AttackRow]] = {}
    for row in rows:
        settings.setdefault(f"{row.setting.learner} {row.setting.defense}", []).append(row)
    found = [_of_setting(mine, MOST_ROWS) for mine in settings.values()]
    if sum(map(len, found)) > MOST_ROWS:
        found = [_of_setting(mine, 1) for mine in settings.values()]
    return [row for mine in found for row in mine]


def _of_setting(rows: Sequence[AttackRow], most: int) -> list[AttackRow]:
    ranked = sorted(rows, key=lambda row: -float(row.found.auc.value) if row.found.auc.known else 0.0)
    attacks = [row for row in ranked if not row.baseline][:most]
    guesses = [row for row in ranked if row.baseline][:1]
    ceilings = [row for row in with_ceilings(attacks) if row.method == ANY_ATTACK][:1]
    return [*attacks, *guesses, *ceilings]


def _table(world: str, rows: Sequence[AttackRow]) -> Table:
    apart = [name for name in differing([row.setting for row in rows]) if name != "trained_on"]
    method, eps = method_columns()
    several = len({row.eps_claimed for row in rows}) > 1
    columns: list[Column[AttackRow]] = [
        method,
        *setting_columns(rows, apart),
        *([eps] if several else []),
        short_column("accuracy", lambda row: row.found.accuracy.value),
        short_column("precision", lambda row: row.found.precision.value),
        short_column("recall", lambda row: row.found.recall.value),
        short_column("exact\nmatch", lambda row: row.found.exact.value),
        estimate_column("AUC", lambda row: row.found.auc, "name", beside=True),
    ]
    return make_table(
        world,
        columns,
        rows,
        caption="\n".join(_caption(rows)),
        dim=lambda row: row.baseline,
        section=lambda row: f"{row.setting.learner} {row.setting.defense}",
        spare=("exact\nmatch", "accuracy", "recall"),
    )


def _caption(rows: Sequence[AttackRow]) -> Iterator[str]:
    lists = sorted({(row.found.lists, row.found.queries) for row in rows})
    counts = " or ".join(f"{n} lists of {queries} queries" for n, queries in lists)
    guesses = dict.fromkeys(row.method for row in rows if row.baseline and row.method != ANY_ATTACK)
    best = f"; {' or '.join(guesses)}: the best baseline, which reads no message" if guesses else ""
    yield f"{counts}; AUC with its 95 % interval over queries{best}"
    if any(row.method == ANY_ATTACK for row in rows):
        yield EXPLAINED


def _utility_lines(rows: Sequence[UtilityRow]) -> Iterator[str]:
    """One line on the quality of the ranker for each epsilon, or for each chain where epsilons are equal."""
    settings = [row.setting for row in rows]
    chains = "defense" in differing(settings)
    several = len({one.eps_claimed for one in settings}) > 1
    seen: set[str] = set()
    for row in rows:
        name = row.setting.defense if chains else f"eps {epsilon(row.setting.eps_claimed)}"
        if name in seen or len(seen) == MOST_ROWS:
            continue
        seen.add(name)
        of = f" ({name})" if several or chains else ""
        without = "" if row.undefended is None else f", {short(row.undefended)} without a defense"
        before = "" if row.untrained is None else f", {short(row.untrained)} untrained"
        yield f"nDCG@10{of}: {short(row.ndcg)}{without}{before}"
