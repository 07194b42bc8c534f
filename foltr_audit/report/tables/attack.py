"""The report of `attack` as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.attack_rows import AttackRow
from foltr_audit.report.results.base import DatasetFacts, UtilityRow
from foltr_audit.report.results.fact_warnings import print_facts
from foltr_audit.report.results.meaning import describe_results
from foltr_audit.report.results.proven_rows import ProvenRow
from foltr_audit.report.results.settings import differing
from foltr_audit.report.results.whole_run import run_caption
from foltr_audit.report.tables import attack_details as details
from foltr_audit.report.tables.columns import (
    OfSetting,
    chain_label,
    claimed_column,
    defense_columns,
    describe_world,
    eps_text,
    estimate_column,
    group_by_world,
    in_method_order,
    method_columns,
    percent,
    percent_column,
    setting_columns,
    short_column,
    trained_on_column,
)
from foltr_audit.report.tables.group_tables import groups_table, utility_groups_table
from foltr_audit.report.tables.inquiries import print_inquiries
from foltr_audit.report.tables.promises import ANY_ATTACK, EXPLAINED, promise_lines, with_ceilings
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import epsilon
from foltr_audit.utils.rows import JsonValue

if TYPE_CHECKING:
    from rich.console import Console

_NORMALISED = {"none": "not normalised"}
RESULT_COLUMNS: list[Column[AttackRow]] = [
    *method_columns(),
    estimate_column("accuracy", lambda row: row.found.accuracy),
    estimate_column("precision", lambda row: row.found.precision),
    estimate_column("recall", lambda row: row.found.recall),
    estimate_column("F1", lambda row: row.found.f1),
    estimate_column("exact\nmatch", lambda row: row.found.exact),
    estimate_column("AUC", lambda row: row.found.auc),
]
"""The columns of the results of attacks."""


def print_attack(report: AttackReport, console: Console) -> None:
    """The whole report: data, results and their details, utility, named queries, and what it all means."""
    attacked = systems_of(report.results or report.counts)
    console.print(dataset_line(report.dataset, report.config, attacked))
    known = report.config.get("known")
    print_facts(report.facts, console, known if isinstance(known, Mapping) else None)
    for name, rows in group_by_world(report.results).items():
        _print_world(report, name, rows, console)
    if len({row.setting.learner for row in report.information}) > 1:
        _print(details.learners_table(report.information), console)
    if report.utility:
        _print(utility_table(report.utility, no_relevant(report.config)), console)
    if report.utility_groups:
        _print(utility_groups_table(report.utility_groups), console)
    if any(math.isfinite(row.eps_proven) for row in report.proven):
        _print(_proven_table(report.proven), console)
    print_named_queries(report, console)
    print_inquiries(report, console)
    others = (
        report.counts
        or report.query_identification
        or report.intent_inference
        or report.linkage
        or report.tasks
    )
    if any(not row.baseline for row in report.results) or not others:
        console.print(escape(describe_results(report.results)), style="bold", highlight=False)


def print_named_queries(report: AttackReport, console: Console) -> None:
    """What was found in the lists of the queries that --queries names."""
    for found in details.query_tables(report.queries):
        _print(found, console)
    for line in details.not_attacked_lines(report.queries):
        console.print(escape(line), highlight=False)


def _print(table: Table, console: Console) -> None:
    print_table(table, console)
    console.print()


def _print_world(report: AttackReport, name: str, rows: Sequence[AttackRow], console: Console) -> None:
    """The tables and lines of one click model and view."""
    lines = with_ceilings(rows)
    _print(_results_table(lines), console)
    _print(details.scores_table(lines), console)
    any_click = group_by_world(report.any_click).get(name, [])
    if any(row.auc.known for row in any_click):
        _print(details.any_click_table(any_click), console)
    for kind, of in ((report.groups, "clients"), (report.places, "lists")):
        if mine := group_by_world(kind).get(name, []):
            _print(groups_table(mine, of), console)
    if learned := group_by_world(report.information).get(name, []):
        _print(details.information_table(learned), console)
    for line in (
        *promise_lines(group_by_world(report.promises).get(name, [])),
        *details.published_lines(group_by_world(report.published).get(name, [])),
        *details.identifiability_lines(group_by_world(report.identifiability).get(name, [])),
        *details.calibration_lines(group_by_world(report.calibration).get(name, [])),
        *details.refused_lines(group_by_world(report.refused).get(name, [])),
    ):
        console.print(escape(line), highlight=False)
    console.print()


def systems_of(rows: Sequence[OfSetting]) -> set[tuple[str, str]]:
    """The learners of some rows, each with its PDGD setting."""
    return {(row.setting.learner, row.setting.pdgd) for row in rows}


def dataset_line(
    data: DatasetFacts, config: Mapping[str, JsonValue], systems: Iterable[tuple[str, str]]
) -> str:
    """The data, its preparation, learners, and the seed; a second line says how many rows have intents."""
    kind = "synthetic data" if data.synthetic else "data"
    fold = data.folds[0]
    sizes = "" if fold.train is None else f"{fold.train} / {fold.vali} / {fold.test} queries, "
    origin = f" of {data.intents_from}" if data.intents_from else ""
    intents = "" if data.intents is None else f"{data.intents} intents{origin}, "
    folds = f", first of {len(data.folds)} folds" if len(data.folds) > 1 else ""
    run = list(systems)
    learners = "".join(sorted({f", {learner.partition(':')[0]}" for learner, _ in run} - {", unknown"}))
    settings = ", ".join(sorted({pdgd for _, pdgd in run} - {"none", "unknown/unknown"}))
    pdgd = f", PDGD {settings}" if settings else ""
    width = f"{data.parameters} parameters" if data.features is None else f"{data.features} features"
    fingerprint = f", fingerprint {fold.fingerprint[:12]}" if fold.fingerprint else ""
    short_ones = data.queries_too_short
    left_out = f"; {short_ones} attacked queries with too few documents left out" if short_ones else ""
    return escape(
        f"{kind} {data.source or 'of an unknown source'} ({sizes}{intents}{width}, "
        f"{_NORMALISED.get(data.normalised, data.normalised)}{folds}{fingerprint}){learners}{pdgd}"
        f"{_sizes(config)}{_chain(config)}, seed {config.get('seed', 'several')}{left_out}{_joined(data)}"
    )


def _sizes(config: Mapping[str, JsonValue]) -> str:
    """Numbers of clients and rounds, of a plan with several those of all Specs."""
    found: dict[str, list[int]] = {"clients": [], "rounds": []}
    for spec in _specs(config):
        for (name, values), table in zip(found.items(), ("population", "train"), strict=True):
            held = spec.get(table)
            value = held.get(name) if isinstance(held, Mapping) else None
            if isinstance(value, int) and value not in values:
                values.append(value)
    return "".join(
        f", {' or '.join(f'{value:,}' for value in sorted(values))} "
        f"{name.removesuffix('s') if values == [1] else name}"
        for name, values in found.items()
        if values
    )


def _chain(config: Mapping[str, JsonValue]) -> str:
    """The chain of defenses, if all Specs have the same."""
    chains = [spec["defense"] for spec in _specs(config) if isinstance(spec.get("defense"), list)]
    found = {"+".join(map(str, chain)) for chain in chains if isinstance(chain, list)}
    (only,) = found if len(found) == 1 else ("",)
    return f", defense {chain_label(only)}" if only not in ("", "none") else ""


def _specs(config: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    cells = config.get("cells", [])
    for spec in (config, config.get("spec"), *(cells if isinstance(cells, list) else [])):
        if isinstance(spec, Mapping):
            yield spec


def _joined(data: DatasetFacts) -> str:
    """The line of intents that are joined by document id; empty where none are."""
    fold = data.folds[0]
    if fold.rows_read is None or fold.rows_joined is None:
        return ""
    return f"\n{fold.rows_joined:,} of {fold.rows_read:,} rows joined with {data.intents_from} by document id"


def no_relevant(config: Mapping[str, JsonValue]) -> str:
    """How queries without relevant documents count, in words."""
    tables = [spec.get("train") for spec in _specs(config)]
    found = [table.get("no_relevant") for table in tables if isinstance(table, Mapping)]
    words = {"zero": "count 0", "skip": "are left out"}
    return " or ".join(text for name, text in words.items() if name in found)


def _results_table(rows: Sequence[AttackRow]) -> Table:
    several = len({row.eps_claimed for row in rows}) > 1
    return make_table(
        describe_world(rows[0]),
        RESULT_COLUMNS,
        in_method_order(rows),
        caption=_lists(rows),
        space=0,
        dim=lambda row: row.baseline,
        section=lambda row: several and row.method,
        spare=("F1", "accuracy", "recall", "exact\nmatch"),
    )


def _lists(rows: Sequence[AttackRow]) -> str:
    """How many lists the rows are means over, one line per chain of defenses."""
    lines = [
        f"claimed {epsilon(row.eps_claimed)}: {row.found.lists} lists of {row.found.queries} queries; "
        f"{row.found.skipped} without a click left out, {row.found.all_clicked} with every document clicked "
        "kept"
        + (f"; {row.found.unknown} whose clicks are not known left out" if row.found.unknown else "")
        + ("" if math.isnan(row.found.clipped) else f"; {percent(row.found.clipped)} of the steps clipped")
        for row in {row.setting.defense: row for row in rows}.values()
    ]
    seen = "below each value: its 95 % interval over queries"
    known = [EXPLAINED] if any(row.method == ANY_ATTACK for row in rows) else []
    return "\n".join([seen, *known, *lines])


def _proven_table(rows: Sequence[ProvenRow]) -> Table:
    apart = [name for name in differing([row.setting for row in rows]) if name not in ("trained_on", "sees")]
    unit = rows[0].unit
    columns: list[Column[ProvenRow]] = [
        Column("server sees", lambda row: row.setting.sees or "", "name"),
        *setting_columns(rows, apart),
        claimed_column(),
        Column("round", lambda row: eps_text(row.eps_proven)),
        Column("run", lambda row: eps_text(row.run.eps) + row.run.of_clicks),
    ]
    return make_table(
        "proven epsilon, whatever the attack",
        columns,
        rows,
        caption=f"round: proven for one {unit} in a message of training; "
        f"{run_caption(row.run for row in rows)}",
    )


def utility_table(rows: Sequence[UtilityRow], words: str) -> Table:
    """How good the trained models are; `words` say how queries without relevant documents count."""
    settings = [row.setting for row in rows]
    apart = [name for name in differing(settings) if name not in ("trained_on", "defense")]
    columns: list[Column[UtilityRow]] = [
        trained_on_column(),
        *setting_columns(rows, apart),
        *defense_columns(rows),
        short_column("untrained", lambda row: row.untrained),
        short_column("trained", lambda row: row.ndcg),
        short_column("undefended", lambda row: row.undefended),
        short_column("ideal", lambda row: row.ceiling),
        percent_column("clipped", lambda row: row.clipped),
        Column("runs", lambda row: str(row.runs)),
    ]
    return make_table(
        f"nDCG@10 on {' or '.join(sorted({row.evaluated_on for row in rows}, reverse=True))}",
        columns,
        rows,
        caption="ideal: what the best possible ranking reaches; queries without relevant documents "
        f"{words}".rstrip(),
        spare=("runs", "clipped", "ideal", "untrained"),
    )
