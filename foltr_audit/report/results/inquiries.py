"""Rows of attacks on something other than clicks: queries, counts in sums, intents, clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.counts import CountEvidence
from foltr_audit.judge.intents import IntentDecisions, IntentEvidence
from foltr_audit.judge.linkage import LinkEvidence
from foltr_audit.judge.queries import QueryEvidence, TruthRanks
from foltr_audit.report.results.attack_rows import AttackPlace, OfAttack
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.rows import Estimate, ResultRow, column

_DIGITS = 2  # estimates that agree in these are tied; more digits would rank rounding errors


@dataclass(frozen=True, kw_only=True)
class QueryIdRow(ResultRow, OfAttack):
    """How often an attack names the true query, over all messages and over those with clicks.

    `accuracy` is the share of messages whose query is named, ties broken at random, `mrr` the mean
    reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are those
    of guessing. `choices` are the queries to choose from, fewer than the `choices_asked` where a round has
    no more. With `_with_pairs`: over messages from whose clicks anything was learnt.
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


@dataclass(frozen=True, kw_only=True)
class LinkRow(ResultRow, OfAttack):
    """How often an attack names a client's next message; simple ways are baselines.

    `accuracy` is the share of messages whose client's next one is named, ties broken at random, `mrr` the
    mean reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are
    those of guessing. `choices` are the messages to choose from, fewer than the `choices_asked` where a round
    has no more. `count` names by the nearest count in clear, `same-queries` by most queries in common.
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


def query_id_rows(evidence: QueryEvidence, where: AttackPlace, streams: Streams) -> Iterator[QueryIdRow]:
    """One row per attack."""
    resamples, sizes = QueryBootstrap(evidence.query, streams), evidence.choices

    def told(values: Floats) -> Floats:
        return np.where(evidence.has_pairs, values, np.nan)

    for label, placed in evidence.placed.items():
        yield QueryIdRow(
            method=label,
            where=where,
            choices=int(sizes.min()),
            choices_asked=evidence.asked,
            messages=int(sizes.size),
            messages_with_pairs=int(evidence.has_pairs.sum()),
            queries=int(resamples.names.size),
            chance=float(np.mean(1.0 / sizes)),
            chance_mrr=_chance_mrr(sizes),
            accuracy=resamples.share(placed.first),
            accuracy_with_pairs=resamples.share(told(placed.first)),
            mrr=resamples.share(placed.reciprocal_rank),
            mrr_with_pairs=resamples.share(told(placed.reciprocal_rank)),
            rank=resamples.mean(placed.rank),
            rank_with_pairs=resamples.mean(told(placed.rank)),
            probability=resamples.share(placed.probability),
            probability_with_pairs=resamples.share(told(placed.probability)),
        )


def _chance_mrr(sizes: Ints) -> float:
    """Mean reciprocal rank of a guess that gives every choice the same probability."""
    return float(np.mean([float(np.mean(1.0 / np.arange(1, size + 1))) for size in sizes.tolist()]))


def count_rows(evidence: CountEvidence, where: AttackPlace, streams: Streams) -> Iterator[CountRow]:
    """One row per estimate of counts, those made without a message first."""
    resamples = QueryBootstrap(evidence.query, streams)
    here = evidence.is_document
    documents = here.sum(axis=1).astype(np.float64)
    for label, estimates in (*evidence.baselines.items(), *evidence.estimates.items()):
        errors = np.where(here, (estimates - evidence.counts) / evidence.clients[:, np.newaxis], 0.0)
        right = here & (np.rint(estimates) == evidence.counts)
        yield CountRow(
            method=label,
            baseline=label in evidence.baselines,
            where=where,
            lists=int(evidence.query.size),
            queries=int(resamples.names.size),
            documents=int(here.sum()),
            clients_min=int(evidence.clients.min()),
            clients_max=int(evidence.clients.max()),
            error=resamples.ratio(np.abs(errors).sum(axis=1), documents),
            rmse=resamples.ratio((errors**2).sum(axis=1), documents, np.sqrt),
            spearman=resamples.mean(rank_correlations(estimates, evidence.counts, here)),
            exact=resamples.ratio(right.sum(axis=1).astype(np.float64), documents, share=True),
        )


def rank_correlations(estimates: Floats, counts: Ints, here: Bools) -> Floats:
    """Spearman's rank correlation within each list (L,); NaN where either side is constant.

    Args:
        estimates: of each document, (L, k); they are rounded to hundredths, which makes ties.
        counts: what is right, (L, k).
        here: False at the padding, (L, k).
    """
    from scipy.stats import rankdata

    out = np.full(len(counts), np.nan)
    for i in range(len(counts)):
        ranks = [rankdata(np.round(side[i, here[i]], _DIGITS)) for side in (estimates, counts)]
        a, b = (side - side.mean() if side.size else side for side in ranks)
        scale = float(np.sqrt((a @ a) * (b @ b)))
        if scale > 0:
            out[i] = float(a @ b) / scale
    return out


def intent_rows(evidence: IntentEvidence, where: AttackPlace, streams: Streams) -> Iterator[IntentRow]:
    """One row per attack."""
    for label, told in evidence.told.items():
        resamples, intents = QueryBootstrap(told.client, streams), told.probability.shape[1]
        counts = np.bincount(told.intent, minlength=intents)
        named, shown = TruthRanks.of(told.probability, told.intent), TruthRanks.of(told.shown, told.intent)
        weights = 1.0 / counts[told.intent]
        yield IntentRow(
            method=label,
            where=where,
            intents=intents,
            messages_together=told.messages,
            decisions=int(told.intent.size),
            clients=int(resamples.names.size),
            mixed=told.mixed,
            left_over=told.left_over,
            chance=1.0 / intents,
            most_frequent=float(counts.max() / told.intent.size),
            shown=resamples.share(shown.first),
            shown_balanced=resamples.ratio(shown.first * weights, weights, share=True),
            accuracy=resamples.share(named.first),
            balanced_accuracy=resamples.ratio(named.first * weights, weights, share=True),
            probability=resamples.share(named.probability),
            bits=resamples.mean(bits(told)),
        )


def bits(told: IntentDecisions) -> Floats:
    """What each decision reveals of the intent, beyond even odds: log2 of its probability times I, (D,)."""
    own = np.take_along_axis(told.probability, told.intent[:, np.newaxis], axis=1)[:, 0]
    return np.asarray(np.log2(np.maximum(own, np.finfo(np.float64).tiny) * told.probability.shape[1]))


def link_rows(evidence: LinkEvidence, where: AttackPlace, streams: Streams) -> Iterator[LinkRow]:
    """One row per attack, simple ones first."""
    if not evidence.client.size:
        return
    resamples, sizes = QueryBootstrap(evidence.client, streams), evidence.choices
    for label, placed in (*evidence.baselines.items(), *evidence.placed.items()):
        yield LinkRow(
            method=label,
            baseline=label in evidence.baselines,
            where=where,
            choices=int(sizes.min()),
            choices_asked=evidence.asked,
            messages=int(sizes.size),
            clients=int(resamples.names.size),
            chance=float(np.mean(1.0 / sizes)),
            chance_mrr=_chance_mrr(sizes),
            accuracy=resamples.share(placed.first),
            mrr=resamples.share(placed.reciprocal_rank),
            rank=resamples.mean(placed.rank),
            probability=resamples.share(placed.probability),
        )
