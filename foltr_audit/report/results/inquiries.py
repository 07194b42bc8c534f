"""Rows of attacks on something other than clicks: queries, counts in sums, intents, clients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from foltr_audit.judge.task import TaskScore
from foltr_audit.privacy.accounting.proven_promise import ProvenPromise
from foltr_audit.report.results.attack_rows import AttackPlace, OfAttack
from foltr_audit.utils.rows import Estimate, ResultRow, column

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
        """The row of a score."""
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
