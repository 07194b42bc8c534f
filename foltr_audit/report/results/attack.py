"""The report of `attack`, its tables and short answer: one row per method, click model, epsilon and view."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.run import Run
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.linkage import counts_are_alike
from foltr_audit.judge.promises import RecordedPromises, click_ceilings
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.report.pictures.report_figures import attack_figure
from foltr_audit.report.render.terminal import MOST_ROWS, BriefAnswer, first_rows, print_table
from foltr_audit.report.results.attack_rows import (
    AnyClickRow,
    AttackPlace,
    AttackRow,
    CalibrationRow,
    IdentifiabilityRow,
    InformationRow,
    PromiseRow,
    PublishedChangeRow,
    QueryListRow,
    RefusedRow,
    any_click_rows,
    calibration_rows,
    identifiability_row,
    information_rows,
    published_rows,
    query_rows,
    scored,
)
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    RunGroup,
    Setting,
    UtilityRow,
    differing,
    groups,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.results.fact_warnings import FactRow, print_facts
from foltr_audit.report.results.groups import (
    GroupRow,
    group_rows,
    groups_table,
    utility_group_rows,
    utility_groups_table,
)
from foltr_audit.report.results.inquiries import (
    CountRow,
    IntentRow,
    LinkRow,
    QueryIdRow,
    TaskRow,
    print_inquiries,
    score_row,
)
from foltr_audit.report.results.meaning import describe_results, doubt_rows, strongest_attack
from foltr_audit.report.results.whole_run import ProvenRow, proven_rows, run_caption
from foltr_audit.report.tables import attack_details as details
from foltr_audit.report.tables.attack_details import ANY_ATTACK, EXPLAINED, promise_lines, with_ceilings
from foltr_audit.report.tables.columns import (
    claimed_column,
    dataset_line,
    describe_world,
    eps_text,
    estimate_column,
    group_by_world,
    in_method_order,
    method_columns,
    no_relevant,
    percent,
    setting_columns,
    short_column,
    systems_of,
    utility_table,
)
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import epsilon, short
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


_WITH_ROWS_OF_THEIR_OWN = ("clicks", "query", "intent", "client", "counts")


@dataclass(frozen=True, kw_only=True)
class AttackRows(ResultRow):
    """Rows of every kind about attacks.

    Attributes:
        any_click: one row per attack on whether a list has any click, over all lists.
        calibration: one row per attack whose scores are probabilities.
        counts: one row per attack on sums over clients, estimates without a message first.
        facts: of a recorded trace, whether its declared facts explain its messages; one row per trace.
        groups: one row per guesser and group of clients, hit hardest first; left out where clients do not
            differ.
        identifiability: one row per setting: what its messages can reveal to any attack.
        information: one row per attack that weighs click patterns: bits of a list's clicks in its message.
        intent_inference: one row per attack on the intents of clients.
        linkage: one row per attack that links a client's messages, simple ones first.
        places: one row per guesser and place of a list in its message, followed by other lists or the last
            one; left out where a message has one list.
        promises: what is proven for the attacked messages, one row per setting and unit; left out where
            messages do not say what defenses do.
        proven: one row per setting and observer: what is proven of a round, and of the whole run.
        published: of view `client`, whose update each change of the global model is; one row per setting.
        queries: one row per attack and attacked list of the named queries.
        query_identification: one row per attack that identifies queries.
        refused: one row per attack that could not run, and why.
        tasks: one row per attack with another task, such as `participant` or one of another package, which
            `task` names; left out without any.
        results: one row per method, click model, claimed epsilon and view; baselines first.
    """

    any_click: tuple[AnyClickRow, ...] = ()
    calibration: tuple[CalibrationRow, ...] = ()
    counts: tuple[CountRow, ...] = ()
    facts: tuple[FactRow, ...] = column(optional=True, default=())
    groups: tuple[GroupRow, ...] = column(optional=True, default=())
    identifiability: tuple[IdentifiabilityRow, ...] = ()
    information: tuple[InformationRow, ...] = ()
    intent_inference: tuple[IntentRow, ...] = ()
    linkage: tuple[LinkRow, ...] = ()
    places: tuple[GroupRow, ...] = column(optional=True, default=())
    promises: tuple[PromiseRow, ...] = column(optional=True, default=())
    published: tuple[PublishedChangeRow, ...] = column(optional=True, default=())
    proven: tuple[ProvenRow, ...] = ()
    queries: tuple[QueryListRow, ...] = ()
    query_identification: tuple[QueryIdRow, ...] = ()
    refused: tuple[RefusedRow, ...] = ()
    tasks: tuple[TaskRow, ...] = column(optional=True, default=())
    results: tuple[AttackRow, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AttackReport(AttackRows, Report):
    """The result of `attack`. Every row names its click model, training, claimed epsilon and view."""

    SCHEMA: ClassVar[str] = "foltr-audit/attack/1"

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        print_attack(self, console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table."""
        return brief_attack(self)

    def figure(self) -> Figure:
        """The AUC of every attack and guess with its interval, a panel for each world."""
        return attack_figure(self)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[Run]) -> AttackReport:
        """The report on the cells of a plan. Repetitions of one setting are pooled."""
        rows_of_kinds = joined(rows for group in groups(cells) for rows in _group_rows(group))
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of(
                [cell.data for cell in cells], max(cell.attacks.too_short for cell in cells)
            ),
            utility=utility_rows(cells),
            utility_groups=utility_group_rows(cells),
            warnings=(*warning_rows(cells), *doubt_rows(rows_of_kinds.results)),
            **vars(rows_of_kinds),
        )


def _group_rows(group: RunGroup) -> Iterator[AttackRows]:
    spec = group.cells[0].spec
    queries = spec.attack.queries if spec.attack is not None else ()
    yield AttackRows(proven=tuple(proven_rows(group.cells[0].proofs, group.setting)))
    for click_model in group.cells[0].attacks.found:
        evidence = TaskEvidence.combined([cell.attacks.found[click_model] for cell in group.cells])
        yield rows_of(evidence, click_model, group.setting, Streams(spec.seed), queries)


def joined(pieces: Iterable[AttackRows]) -> AttackRows:
    """The rows of several settings."""
    parts = list(pieces)
    names = [kind.name for kind in fields(AttackRows)]
    return AttackRows(**{name: tuple(row for rows in parts for row in getattr(rows, name)) for name in names})


def rows_of(
    found: TaskEvidence,
    click_model: str,
    setting: Setting,
    streams: Streams,
    queries: Sequence[str] = (),
) -> AttackRows:
    """Rows of every kind about one setting.

    Args:
        found: what attacks found.
        click_model: how the attacked users click.
        setting: what was run.
        streams: named random streams, of which the bootstrap is one.
        queries: names of queries whose attacked lists get a row each.
    """
    asked = inquiry_rows(found, click_model, setting, streams)
    if found.clicks is None:
        return asked
    where = AttackPlace(click_model=click_model, setting=setting, view=found.view)
    promise = None if found.promises is None else found.promises.interaction
    return joined([click_rows(found.clicks, where, streams, queries, promise), asked])


def click_rows(
    evidence: ClickEvidence,
    where: AttackPlace,
    streams: Streams,
    queries: Sequence[str] = (),
    promise: ProvenPromise | None = None,
) -> AttackRows:
    """Rows for the individual view of judged lists.

    Arguments are as for `rows_of`; `promise` is what is proven for one interaction.
    """
    ceiling = click_ceilings(evidence, promise)
    resamples = QueryBootstrap(evidence.query, streams)
    return AttackRows(
        any_click=tuple(any_click_rows(evidence, where, resamples, promise)),
        calibration=tuple(calibration_rows(evidence, where, resamples)),
        groups=tuple(group_rows(evidence, where, streams)),
        identifiability=(identifiability_row(evidence, where),),
        information=tuple(information_rows(evidence, where, resamples)),
        places=tuple(group_rows(evidence.by_followers(), where, streams)),
        queries=tuple(query_rows(evidence, where, queries)),
        results=tuple(
            AttackRow(method=method, baseline=baseline, where=where, found=metrics, ceiling=ceiling)
            for method, baseline, metrics in scored(evidence, streams)
        ),
    )


def inquiry_rows(found: TaskEvidence, click_model: str, setting: Setting, streams: Streams) -> AttackRows:
    """Rows of attacks on something else than clicks, and of all that could not run.

    Arguments are as for `rows_of`.
    """
    where = AttackPlace(click_model=click_model, setting=setting, view=found.view)
    scores = {task: list(evidence.scores(streams)) for task, evidence in found.found.items()}
    promised = found.promises
    linked, queries, intents = (scores.get(task, ()) for task in ("client", "query", "intent"))
    linkable = promised.client if promised is not None and counts_are_alike(linked) else None
    clicks, message = (None, None) if promised is None else (promised.clicks, promised.message)
    return AttackRows(
        counts=tuple(score_row(CountRow, score, where) for score in scores.get("counts", ())),
        intent_inference=tuple(score_row(IntentRow, score, where, clicks) for score in intents),
        linkage=tuple(score_row(LinkRow, score, where, linkable) for score in linked),
        promises=_promises(found.promises, where),
        published=published_rows(found.singled_out, where),
        query_identification=tuple(score_row(QueryIdRow, score, where, message) for score in queries),
        refused=_refused(found.refused, where),
        tasks=tuple(
            TaskRow.of(task, score, where)
            for task in scores
            if task not in _WITH_ROWS_OF_THEIR_OWN
            for score in scores[task]
        ),
    )


def _promises(found: RecordedPromises | None, where: AttackPlace) -> tuple[PromiseRow, ...]:
    if found is None:
        return ()
    return tuple(
        PromiseRow.of(promise, where, about)
        for about, promise in (
            ("one interaction", found.interaction),
            ("one message", found.message),
            ("all clicks of a client", found.clicks),
            ("a client", found.client),
        )
    )


def _refused(why: Mapping[str, str], where: AttackPlace) -> tuple[RefusedRow, ...]:
    return tuple(RefusedRow(method=label, where=where, reason=reason) for label, reason in why.items())


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
    for table in details.query_tables(report.queries):
        _print(table, console)
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


def _results_table(rows: Sequence[AttackRow]) -> Table:
    claims_vary = len({row.eps_claimed for row in rows}) > 1
    return make_table(
        describe_world(rows[0]),
        RESULT_COLUMNS,
        in_method_order(rows),
        caption=_lists(rows),
        space=0,
        dim=lambda row: row.baseline,
        section=lambda row: claims_vary and row.method,
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
    shown = [_of_setting(rows_of, MOST_ROWS) for rows_of in settings.values()]
    if sum(map(len, shown)) > MOST_ROWS:
        shown = [_of_setting(rows_of, 1) for rows_of in settings.values()]
    return [row for rows_of in shown for row in rows_of]


def _of_setting(rows: Sequence[AttackRow], most: int) -> list[AttackRow]:
    ranked = sorted(rows, key=lambda row: -float(row.found.auc.value) if row.found.auc.known else 0.0)
    attacks = [row for row in ranked if not row.baseline][:most]
    guesses = [row for row in ranked if row.baseline][:1]
    ceilings = [row for row in with_ceilings(attacks) if row.method == ANY_ATTACK][:1]
    return [*attacks, *guesses, *ceilings]


def _table(world: str, rows: Sequence[AttackRow]) -> Table:
    apart = [name for name in differing([row.setting for row in rows]) if name != "trained_on"]
    method, eps = method_columns()
    claims_vary = len({row.eps_claimed for row in rows}) > 1
    columns: list[Column[AttackRow]] = [
        method,
        *setting_columns(rows, apart),
        *([eps] if claims_vary else []),
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
    claims_vary = len({setting.eps_claimed for setting in settings}) > 1
    seen: set[str] = set()
    for row in rows:
        name = row.setting.defense if chains else f"eps {epsilon(row.setting.eps_claimed)}"
        if name in seen or len(seen) == MOST_ROWS:
            continue
        seen.add(name)
        of = f" ({name})" if claims_vary or chains else ""
        without = "" if row.undefended is None else f", {short(row.undefended)} without a defense"
        before = "" if row.untrained is None else f", {short(row.untrained)} untrained"
        yield f"nDCG@10{of}: {short(row.ndcg)}{without}{before}"
