"""Rows of attacks that ask for something else than clicks: queries, intents, clients, counts from sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.counts import CountEvidence
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.queries import QueryEvidence
from foltr_audit.report.results.attack_rows import columns
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.population import intent_rows, link_rows
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats

_DIGITS = 2  # estimates that agree in so many are tied


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
    """One row per attack: how often the truth is named, over all messages and over those that say anything.

    `accuracy` is the share of messages whose query is named, ties broken at random, `mrr` the mean
    reciprocal rank of it, `probability` what it is given in the mean; `chance` and `chance_mrr` are those
    of guessing. `choices` are the queries to choose from, fewer than the `choices_asked` where a round has
    no more. With `_with_pairs`: over messages from whose clicks anything was learnt.
    """
    resamples, sizes = QueryBootstrap(evidence.query, streams), evidence.choices
    chance_mrr = [float(np.mean(1.0 / np.arange(1, size + 1))) for size in sizes.tolist()]
    for label, placed in evidence.placed.items():
        row: Row = {
            "method": label,
            **where,
            "choices": int(sizes.min()),
            "choices_asked": evidence.asked,
            "messages": int(sizes.size),
            "messages_with_pairs": int(evidence.has_pairs.sum()),
            "queries": int(resamples.names.size),
            "chance": float(np.mean(1.0 / sizes)),
            "chance_mrr": float(np.mean(chance_mrr)),
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


def rank_correlations(estimates: Floats, counts: NDArray[np.int64], here: NDArray[np.bool_]) -> Floats:
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
