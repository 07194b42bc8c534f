"""The report of `attack`: one row per method, click model, claimed epsilon and view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.linkage import counts_are_alike
from foltr_audit.judge.promises import RecordedPromises, click_ceilings
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.privacy.accounting.proven_promise import ProvenPromise
from foltr_audit.report.results import attack_rows as rows_of_clicks
from foltr_audit.report.results.attack_rows import (
    AnyClickRow,
    AttackPlace,
    AttackRow,
    CalibrationRow,
    IdentifiabilityRow,
    InformationRow,
    PromiseRow,
    QueryListRow,
    RefusedRow,
)
from foltr_audit.report.results.base import (
    DatasetFacts,
    Report,
    RunGroup,
    Setting,
    groups,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.results.doubts import doubt_rows
from foltr_audit.report.results.fact_warnings import FactRow
from foltr_audit.report.results.group_success import GroupRow, group_rows
from foltr_audit.report.results.group_utility import utility_group_rows
from foltr_audit.report.results.inquiries import (
    CountRow,
    IntentRow,
    LinkRow,
    QueryIdRow,
    TaskRow,
    score_row,
)
from foltr_audit.report.results.proven_rows import ProvenRow, proven_rows
from foltr_audit.report.results.published_changes import PublishedChangeRow, published_rows
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer

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
        from foltr_audit.report.tables.attack import print_attack

        print_attack(self, console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table."""
        from foltr_audit.report.tables.brief.attack import brief_attack

        return brief_attack(self)

    def figure(self) -> Figure:
        """The AUC of every attack and guess with its interval, a panel for each world."""
        from foltr_audit.report.pictures.report_figures import attack_figure

        return attack_figure(self)

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> AttackReport:
        """The report on the cells of a plan. Repetitions of one setting are pooled."""
        found = joined(rows for group in groups(cells) for rows in _group_rows(group))
        return cls(
            config=plan.public.table(),
            dataset=DatasetFacts.of(
                [cell.data for cell in cells], max(cell.attacks.too_short for cell in cells)
            ),
            utility=utility_rows(cells),
            utility_groups=utility_group_rows(cells),
            warnings=(*warning_rows(cells), *doubt_rows(found.results)),
            **vars(found),
        )


def _group_rows(group: RunGroup) -> Iterator[AttackRows]:
    spec = group.cells[0].spec
    queries = spec.attack.queries if spec.attack is not None else ()
    yield AttackRows(proven=tuple(proven_rows(group.cells[0].proven, group.setting)))
    for click_model in group.cells[0].attacks.found:
        found = TaskEvidence.combined([cell.attacks.found[click_model] for cell in group.cells])
        yield rows_of(found, click_model, group.setting, Streams(spec.seed), queries)


def joined(pieces: Iterable[AttackRows]) -> AttackRows:
    """The rows of several settings."""
    several = list(pieces)
    names = [each.name for each in fields(AttackRows)]
    return AttackRows(
        **{name: tuple(row for rows in several for row in getattr(rows, name)) for name in names}
    )


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
        any_click=tuple(rows_of_clicks.any_click_rows(evidence, where, resamples, promise)),
        calibration=tuple(rows_of_clicks.calibration_rows(evidence, where, resamples)),
        groups=tuple(group_rows(evidence, where, streams)),
        identifiability=(rows_of_clicks.identifiability_row(evidence, where),),
        information=tuple(rows_of_clicks.information_rows(evidence, where, resamples)),
        places=tuple(group_rows(evidence.by_followers(), where, streams)),
        queries=tuple(rows_of_clicks.query_rows(evidence, where, queries)),
        results=tuple(
            AttackRow(method=method, baseline=baseline, where=where, found=found, ceiling=ceiling)
            for method, baseline, found in rows_of_clicks.scored(evidence, streams)
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
