"""Rows of attacks on something other than clicks: queries, counts in sums, intents, clients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.counts import CountEvidence
from foltr_audit.judge.intents import IntentDecisions, IntentEvidence
from foltr_audit.judge.linkage import LinkEvidence
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.queries import QueryEvidence, TruthRanks
from foltr_audit.report.results.attack_rows import columns
from foltr_audit.report.results.base import Row
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

_DIGITS = 2  # estimates that agree in these are tied; more digits would rank rounding errors


def inquiry_rows(
    inquiries: TaskEvidence, click_model: str, setting: Row, streams: Streams
) -> dict[str, list[Row]]:
    """Rows by kind: those of `report.attack.INQUIRIES`, and `refused` for attacks that could not run.

    Args:
        inquiries: what was found in one setting.
        click_model: how the attacked users click.
        setting: columns that name what was run.
        streams: named random streams, of which the bootstrap is one.
    """
    where = {"click_model": click_model, **setting, "view": inquiries.view}
    queries, counts, intents, links = inquiries.queries, inquiries.counts, inquiries.intents, inquiries.links
    return {
        "counts": [] if counts is None else list(count_rows(counts, where, streams)),
        "intent_inference": [] if intents is None else list(intent_rows(intents, where, streams)),
        "linkage": [] if links is None else list(link_rows(links, where, streams)),
        "query_identification": [] if queries is None else list(query_id_rows(queries, where, streams)),
        "refused": [{"method": label, **where, "reason": why} for label, why in inquiries.refused.items()],
    }


def query_id_rows(evidence: QueryEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per attack: how often the truth is named, over all messages and over those with clicks.

    `accuracy` is the share of messages whose query is named, ties broken at random, `mrr` the mean
    reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are those
    of guessing. `choices` are the queries to choose from, fewer than the `choices_asked` where a round has
    no more. With `_with_pairs`: over messages from whose clicks anything was learnt.
    """
    resamples = QueryBootstrap(evidence.query, streams)
    for label, placed in evidence.placed.items():
        row: Row = {
            "method": label,
            **where,
            **_choices(evidence),
            "messages_with_pairs": int(evidence.has_pairs.sum()),
            "queries": int(resamples.names.size),
            **_chance(evidence),
        }
        metrics = {
            "accuracy": placed.first,
            "mrr": placed.reciprocal_rank,
            "rank": placed.rank,
            "probability": placed.probability,
        }
        for name, values in metrics.items():
            told = np.where(evidence.has_pairs, values, np.nan)
            average = resamples.mean if name == "rank" else resamples.share
            row |= columns(name, average(values))
            row |= columns(f"{name}_with_pairs", average(told))
        yield row


def _choices(evidence: QueryEvidence | LinkEvidence) -> Row:
    sizes = evidence.choices
    return {"choices": int(sizes.min()), "choices_asked": evidence.asked, "messages": int(sizes.size)}


def _chance(evidence: QueryEvidence | LinkEvidence) -> Row:
    """Accuracy and mean reciprocal rank of a guess that gives every choice the same probability."""
    sizes = evidence.choices
    chance_mrr = [float(np.mean(1.0 / np.arange(1, size + 1))) for size in sizes.tolist()]
    return {"chance": float(np.mean(1.0 / sizes)), "chance_mrr": float(np.mean(chance_mrr))}


def count_rows(evidence: CountEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per estimate of counts, those made without a message first.

    `error` is the mean absolute error of a document's click-through rate, `rmse` the root of the mean
    squared one, `spearman` the mean over lists of the rank correlation within a list where it is defined,
    `exact` the share of documents whose rounded count is right. `constant` is the one rate that errs
    least in hindsight; `position-prior` what is expected of the grades that positions usually show,
    `position-prior:median` what errs least in absolute value of that, `relevance-prior` what is expected
    where grades are known.
    """
    resamples = QueryBootstrap(evidence.query, streams)
    here = evidence.is_document
    for label, estimates in (*evidence.baselines.items(), *evidence.estimates.items()):
        yield {
            "method": label,
            "baseline": label in evidence.baselines,
            **where,
            "lists": int(evidence.query.size),
            "queries": int(resamples.names.size),
            "documents": int(here.sum()),
            "clients_min": int(evidence.clients.min()),
            "clients_max": int(evidence.clients.max()),
            **_count_metrics(evidence, estimates, resamples),
        }


def _count_metrics(evidence: CountEvidence, estimates: Floats, resamples: QueryBootstrap) -> Row:
    here = evidence.is_document
    documents = here.sum(axis=1).astype(np.float64)
    errors = np.where(here, (estimates - evidence.counts) / evidence.clients[:, np.newaxis], 0.0)
    right = here & (np.rint(estimates) == evidence.counts)
    return {
        **columns("error", resamples.ratio(np.abs(errors).sum(axis=1), documents)),
        **columns("rmse", resamples.ratio((errors**2).sum(axis=1), documents, np.sqrt)),
        **columns("spearman", resamples.mean(rank_correlations(estimates, evidence.counts, here))),
        **columns("exact", resamples.ratio(right.sum(axis=1).astype(np.float64), documents, share=True)),
    }


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


# --- intents and clients --------------------------------------------------------------------------


def intent_rows(evidence: IntentEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per attack: how often the intent is named; intervals are over clients.

    `accuracy` is the share of decisions that are right, ties broken at random, `balanced_accuracy` the mean
    over intents of the share among those of that intent, `probability` what the truth is given on average.
    With them go `chance`, `most_frequent`, the share of the most frequent intent, and `shown`, with
    `shown_balanced`, what naming the intent gives whose relevant documents were shown most.
    """
    for label, told in evidence.told.items():
        resamples, intents = QueryBootstrap(told.client, streams), told.probability.shape[1]
        counts = np.bincount(told.intent, minlength=intents)
        named, shown = TruthRanks.of(told.probability, told.intent), TruthRanks.of(told.shown, told.intent)
        weights = 1.0 / counts[told.intent]
        yield {
            "method": label,
            **where,
            "intents": intents,
            "messages_together": told.messages,
            "decisions": int(told.intent.size),
            "clients": int(resamples.names.size),
            "mixed": told.mixed,
            "left_over": told.left_over,
            "chance": 1.0 / intents,
            "most_frequent": float(counts.max() / told.intent.size),
            **columns("shown", resamples.share(shown.first)),
            **columns("shown_balanced", resamples.ratio(shown.first * weights, weights, share=True)),
            **columns("accuracy", resamples.share(named.first)),
            **columns("balanced_accuracy", resamples.ratio(named.first * weights, weights, share=True)),
            **columns("probability", resamples.share(named.probability)),
            **columns("bits", resamples.mean(bits(told))),
        }


def bits(told: IntentDecisions) -> Floats:
    """What each decision reveals of the intent, beyond even odds: log2 of its probability times I, (D,)."""
    own = np.take_along_axis(told.probability, told.intent[:, np.newaxis], axis=1)[:, 0]
    return np.asarray(np.log2(np.maximum(own, np.finfo(np.float64).tiny) * told.probability.shape[1]))


def link_rows(evidence: LinkEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per attack, simple ones first: how often a client's next message is named.

    `accuracy` is the share of messages whose client's next one is named, ties broken at random, `mrr` the
    mean reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are
    those of guessing. `choices` are the messages to choose from, fewer than the `choices_asked` where a round
    has no more. `count` names by the nearest count in clear, `same-queries` by most queries in common.
    """
    if not evidence.client.size:
        return
    resamples = QueryBootstrap(evidence.client, streams)
    for label, placed in (*evidence.baselines.items(), *evidence.placed.items()):
        yield {
            "method": label,
            "baseline": label in evidence.baselines,
            **where,
            **_choices(evidence),
            "clients": int(resamples.names.size),
            **_chance(evidence),
            **columns("accuracy", resamples.share(placed.first)),
            **columns("mrr", resamples.share(placed.reciprocal_rank)),
            **columns("rank", resamples.mean(placed.rank)),
            **columns("probability", resamples.share(placed.probability)),
        }
