"""Attacks on something else than clicks: their rows, and these as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from rich.markup import escape

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.judge.task import TaskScore
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.attack_rows import AttackPlace, OfAttack
from foltr_audit.report.results.wording import whole_percent
from foltr_audit.report.tables.attack_details import ceiling_line, refused_lines
from foltr_audit.report.tables.columns import (
    MetricLine,
    describe_world,
    estimate_column,
    first_of_settings,
    group_by_world,
    in_method_order,
    method_columns,
    metric_columns,
)
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import epsilon, short
from foltr_audit.utils.rows import ResultRow, column

if TYPE_CHECKING:
    from rich.console import Console

    from foltr_audit.report.results.attack import AttackReport


R = TypeVar("R", bound=ResultRow)


@dataclass(frozen=True, kw_only=True)
class QueryIdRow(ResultRow, OfAttack):
    """How often an attack names the true query, over all messages and over those with clicks.

    `accuracy` is the share of messages whose query is named, ties broken at random, `mrr` the mean
    reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are those
    of guessing. `choices` are the queries to choose from, fewer than the `choices_asked` where a round has
    no more. With `_with_pairs`: over messages from whose clicks anything was learnt.
    `ceiling_accuracy` is the most that any attack can reach with the message, by what is proven for a client,
    for an attacker who knows how often each query is asked in the round, but not by whom.
    """

    method: str
    where: AttackPlace = column(embedded=True)
    choices: int
    choices_asked: int
    messages: int
    messages_with_pairs: int
    queries: int
    chance: float
    chance_mrr: float
    accuracy: Estimate
    accuracy_with_pairs: Estimate
    mrr: Estimate
    mrr_with_pairs: Estimate
    rank: Estimate
    rank_with_pairs: Estimate
    probability: Estimate
    probability_with_pairs: Estimate
    ceiling: float = column("ceiling_accuracy", default=math.nan)


@dataclass(frozen=True, kw_only=True)
class CountRow(ResultRow, OfAttack):
    """How well an attack estimates counts of clicks in sums; those made without a message are baselines.

    `error` is the mean absolute error of a document's click-through rate, `rmse` the root of the mean
    squared one, `spearman` the mean over lists of the rank correlation within a list where it is defined,
    `exact` the share of documents whose rounded count is right. `constant` is the one rate that errs
    least in hindsight; `position-prior` what is expected of the grades that positions usually show,
    `position-prior:median` what errs least in absolute value of that, `relevance-prior` what is expected
    where grades are known.
    """

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    lists: int
    queries: int
    documents: int
    clients_min: int
    clients_max: int
    error: Estimate
    rmse: Estimate
    spearman: Estimate
    exact: Estimate


@dataclass(frozen=True, kw_only=True)
class IntentRow(ResultRow, OfAttack):
    """How often an attack names the intent; intervals are over clients.

    `accuracy` is the share of decisions that are right, ties broken at random, `balanced_accuracy` the mean
    over intents of the share among those of that intent, `probability` what the truth is given on average.
    With them go `chance`, `most_frequent`, the share of the most frequent intent, and `shown`, with
    `shown_balanced`, what naming the intent gives whose relevant documents were shown most.
    `ceiling_accuracy` is the most that any attack can reach, by what is proven for all clicks of a client,
    for an attacker who knows how frequent each intent is in each round.
    """

    method: str
    where: AttackPlace = column(embedded=True)
    intents: int
    messages_together: int
    decisions: int
    clients: int
    mixed: int
    left_over: int
    chance: float
    most_frequent: float
    shown: Estimate
    shown_balanced: Estimate
    accuracy: Estimate
    balanced_accuracy: Estimate
    probability: Estimate
    bits: Estimate
    ceiling: float = column("ceiling_accuracy", default=math.nan)


@dataclass(frozen=True, kw_only=True)
class LinkRow(ResultRow, OfAttack):
    """How often an attack names a client's next message; simple ways are baselines.

    `accuracy` is the share of messages whose client's next one is named, ties broken at random, `mrr` the
    mean reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are
    those of guessing. `choices` are the messages to choose from, fewer than the `choices_asked` where a round
    has no more. `count` names by the nearest count in clear, `same-queries` by most queries in common.
    `ceiling_accuracy` is the most that any attack can reach, by what is proven for a client over all its
    messages; not known where counts in clear tell clients apart.
    """

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    choices: int
    choices_asked: int
    messages: int
    clients: int
    chance: float
    chance_mrr: float
    accuracy: Estimate
    mrr: Estimate
    rank: Estimate
    probability: Estimate
    ceiling: float = column("ceiling_accuracy", default=math.nan)


@dataclass(frozen=True, kw_only=True)
class TaskRow(ResultRow, OfAttack):
    """How well an attack does a task without rows of its own, such as one of another package.

    Attributes:
        baseline: whether it is there for comparison only; None for a task without baselines.
        task: name of the task.
        facts: what was judged, by the name of the column.
        metrics: how well, by the name of the column.
    """

    method: str
    baseline: bool | None = column(optional=True)
    task: str
    where: AttackPlace = column(embedded=True)
    facts: Mapping[str, float] = column(embedded=True)
    metrics: Mapping[str, Estimate] = column(embedded=True)

    @classmethod
    def of(cls, task: str, score: TaskScore, where: AttackPlace) -> TaskRow:
        return cls(
            method=score.method,
            baseline=score.baseline,
            task=task,
            where=where,
            facts=score.facts,
            metrics=score.metrics,
        )


def score_row(kind: type[R], score: TaskScore, where: AttackPlace, promise: ProvenPromise | None = None) -> R:
    """The row of a score; its class names the columns of the task.

    Args:
        kind: class of the row.
        score: the score.
        where: what was attacked.
        promise: what is proven for the secret that is named.
    """
    given: dict[str, object] = {"method": score.method, "where": where, **score.facts, **score.metrics}
    if promise is not None and promise.known and score.priors is not None:
        priors, often = np.unique(score.priors, return_counts=True)
        given["ceiling"] = float(np.average(promise.curve.success(priors), weights=often))
    if score.baseline is not None:
        given["baseline"] = score.baseline
    return kind(**given)


_COUNTS: list[Column[CountRow]] = [
    *method_columns(),
    estimate_column("error", lambda row: row.error),
    estimate_column("RMSE", lambda row: row.rmse),
    estimate_column("Spearman", lambda row: row.spearman),
    estimate_column("exact", lambda row: row.exact),
]


def print_inquiries(report: AttackReport, console: Console) -> None:
    """The tables of every kind, one per click model and view, and a sentence per attack."""
    for table in _tables(report):
        print_table(table, console)
        console.print()
    printed = group_by_world(report.results)  # refusals of these worlds stand below their results
    for line in refused_lines([row for row in report.refused if describe_world(row) not in printed]):
        console.print(escape(line), highlight=False)
    for line in (
        *_query_sentences(report.query_identification),
        *_count_sentences(report.counts),
        *_intent_sentences(report.intent_inference),
        *_link_sentences(report.linkage),
    ):
        console.print(escape(line), style="bold", highlight=False)


# --- tables ----------------------------------------------------------------------------------------


def _tables(report: AttackReport) -> Iterator[Table]:
    for name, queries in group_by_world(report.query_identification).items():
        yield query_table(name, queries)
    for name, counts in group_by_world(report.counts).items():
        yield count_table(name, counts)
    for name, intents in group_by_world(report.intent_inference).items():
        yield intent_table(name, intents)
    for name, links in group_by_world(report.linkage).items():
        yield link_table(name, links)
    for name, tasks in group_by_world(report.tasks).items():
        yield task_table(name, tasks)


def query_table(name: str, rows: Sequence[QueryIdRow]) -> Table:
    """How often each attack names the query, compared with guessing; rows of one world."""
    row = rows[0]
    caption = (
        f"one of {row.choices} queries{_fewer_choices(row)}; "
        f"{row.messages} messages of {row.queries} queries\n"
        f"with pairs: the {row.messages_with_pairs} from whose clicks anything was learnt; the others say "
        "nothing of the query\nMRR: mean reciprocal rank of the right one"
    )
    chance, chance_mrr = Estimate(row.chance), Estimate(row.chance_mrr)
    lines = [MetricLine(method="guessing", values=(chance, chance_mrr, chance, chance_mrr))]
    lines += [
        MetricLine.of(
            line,
            line.accuracy,
            line.mrr,
            line.accuracy_with_pairs,
            line.mrr_with_pairs,
        )
        for line in in_method_order(rows)
    ]
    lines += _ceiling_lines(rows, 4)
    return _metrics_table(f"which query? {name}", caption, ("accuracy", "MRR", "with pairs", "MRR"), lines)


def count_table(name: str, rows: Sequence[CountRow]) -> Table:
    """How well click counts are estimated, also without a message; rows of one world."""
    row = rows[0]
    return make_table(
        f"click counts, {name}",
        _COUNTS,
        in_method_order(rows),
        caption=f"{row.lists} lists of {row.queries} queries, sums over {_summands(row)}\n"
        "below each value: its 95 % interval over queries; errors are those of click-through rates\n"
        "constant: the best one in hindsight; prior: what is usual, without a sum",
        space=2,
        dim=lambda row: row.baseline,
    )


def intent_table(name: str, rows: Sequence[IntentRow]) -> Table:
    """How often each attack names the intent, also without a message; rows of one world."""
    first = rows[0]
    mixed = f"; left out: {first.mixed} with several intents" if first.mixed else ""
    few = f"; {first.left_over} messages too few of a client" if first.left_over else ""
    caption = (
        f"{first.intents} intents; {first.decisions} decisions, {first.clients} clients{mixed}{few}\n"
        "balanced: mean over intents; bits: log2 of the probability of the truth, above even odds\n"
        "relevant shown: the intent of which most relevant documents were shown; 95 % intervals over clients"
    )
    even = Estimate(first.chance)
    lines = [MetricLine(method="guessing", values=(even, even, Estimate(0.0)))]
    for row in in_method_order(rows):
        of = f" ({row.messages_together} messages)" if row.messages_together > 1 else ""
        frequent = MetricLine.of(row, Estimate(row.most_frequent), even, UNKNOWN, baseline=True)
        shown = MetricLine.of(row, row.shown, row.shown_balanced, UNKNOWN, baseline=True)
        lines += [
            replace(frequent, method=f"most frequent{of}"),
            replace(shown, method=f"relevant shown{of}"),
            MetricLine.of(row, row.accuracy, row.balanced_accuracy, row.bits),
        ]
    lines += _ceiling_lines(rows, 3)
    return _metrics_table(f"which intent? {name}", caption, ("accuracy", "balanced", "bits"), lines)


def link_table(name: str, rows: Sequence[LinkRow]) -> Table:
    """How often a client's next message is named, also in simple ways; rows of one world."""
    row = rows[0]
    caption = (
        f"one of {row.choices} messages of the next round{_fewer_choices(row)}; "
        f"{row.messages} messages of {row.clients} clients\n"
        "count: nearest number of interactions; same-queries: most queries in common\n"
        "MRR: mean reciprocal rank of the client's own; 95 % intervals over clients"
    )
    lines = [MetricLine(method="guessing", values=(Estimate(row.chance), Estimate(row.chance_mrr)))]
    lines += [
        MetricLine.of(line, line.accuracy, line.mrr, baseline=line.baseline) for line in in_method_order(rows)
    ]
    lines += _ceiling_lines(rows, 2)
    return _metrics_table(f"same client? {name}", caption, ("accuracy", "MRR"), lines)


def task_table(name: str, rows: Sequence[TaskRow]) -> Table:
    """Whatever tasks of other packages measure; rows of one world."""
    tasks = ", ".join(dict.fromkeys(row.task for row in rows))
    names = list(dict.fromkeys(metric for row in rows for metric in row.metrics))
    lines = [
        MetricLine.of(
            row, *(row.metrics.get(metric, UNKNOWN) for metric in names), baseline=bool(row.baseline)
        )
        for row in in_method_order(rows)
    ]
    return _metrics_table(f"{tasks}: {name}", "95 % intervals beside the values", names, lines)


def _metrics_table(title: str, caption: str, headers: Sequence[str], lines: Sequence[MetricLine]) -> Table:
    columns: list[Column[MetricLine]] = [*method_columns(), *metric_columns(headers)]
    return make_table(title, columns, lines, caption=caption, dim=lambda line: line.baseline)


def _ceiling_lines(rows: Sequence[QueryIdRow | IntentRow | LinkRow], columns: int) -> list[MetricLine]:
    """The most that any attack can reach in each setting with a proof, in the first of some columns."""
    first_rows = first_of_settings(rows)
    return [line for row in first_rows for line in ceiling_line(row.ceiling, row.eps_claimed, columns)]


def _fewer_choices(row: QueryIdRow | LinkRow) -> str:
    """A note if there were fewer choices than asked for; else nothing."""
    fewer = row.choices < row.choices_asked
    return f", not {row.choices_asked}: there are no more" if fewer else ""


def _summands(row: CountRow) -> str:
    """What each sum adds up, e.g. `20 clients`."""
    least, most = row.clients_min, row.clients_max
    count = f"{least}" if least == most else f"{least} to {most}"
    what = "message" if row.where.view == "pooled" else "client"
    plural = "" if most == 1 else "s"
    return f"{count} {what}{plural}{' of one client' if row.where.view == 'pooled' else ''}"


# --- sentences -------------------------------------------------------------------------------------


def _setting(row: OfAttack) -> str:
    """What a sentence about a row begins with: click model, epsilon, and Spec fields without a column."""
    more = "".join(f", {name}={value}" for name, value in row.setting.fields.items())
    return f"{row.where.click_model} clicks, eps {epsilon(row.eps_claimed)}{more}"


def _query_sentences(rows: Sequence[QueryIdRow]) -> Iterator[str]:
    for row in rows:
        yield (
            f"{_setting(row)}: {row.method} names {whole_percent(row.accuracy.value)} of the queries among "
            f"{row.choices}, {whole_percent(row.accuracy_with_pairs.value)} where anything was learnt "
            f"(guessing: {whole_percent(row.chance)})."
        )


def _count_sentences(rows: Sequence[CountRow]) -> Iterator[str]:
    usual = {_setting(row): row.error.value for row in rows if row.method == "position-prior:median"}
    for row in (row for row in rows if not row.baseline):
        without = f" (without the sums: {short(usual[_setting(row)])})" if _setting(row) in usual else ""
        yield (
            f"{_setting(row)}: {row.method} estimates click-through rates from sums over {_summands(row)} "
            f"to within {short(row.error.value)} on average{without}."
        )


def _intent_sentences(rows: Sequence[IntentRow]) -> Iterator[str]:
    for row in rows:
        together = f" from {row.messages_together} messages" if row.messages_together > 1 else ""
        yield (
            f"{_setting(row)}: {row.method} names {whole_percent(row.accuracy.value)} of the clients' intents"
            f"{together} (guessing: {whole_percent(row.chance)}; by what was shown: "
            f"{whole_percent(row.shown.value)})."
        )


def _link_sentences(rows: Sequence[LinkRow]) -> Iterator[str]:
    for row in (row for row in rows if not row.baseline):
        yield (
            f"{_setting(row)}: {row.method} links {whole_percent(row.accuracy.value)} of the messages to the "
            f"next one of their client among {row.choices} "
            f"(guessing: {whole_percent(row.chance)}{_best_simple_way(row, rows)})."
        )


def _best_simple_way(row: LinkRow, rows: Sequence[LinkRow]) -> str:
    """The best that can be done in the same setting without an attack."""
    simple = [other for other in rows if other.baseline and _setting(other) == _setting(row)]
    known = [other for other in simple if other.accuracy.known]
    if not known:
        return ""
    best = max(known, key=lambda other: other.accuracy.value)
    return f"; {best.method} alone: {whole_percent(best.accuracy.value)}"
