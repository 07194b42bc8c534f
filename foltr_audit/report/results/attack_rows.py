"""Rows that go with an attack's results: any click, calibration, identifiability, named queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any

import numpy as np

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.calibration import calibration
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.mutual_information import information
from foltr_audit.judge.scoring import any_click_scores
from foltr_audit.report.results.base import Row
from foltr_audit.utils.arrays import Bools
from foltr_audit.utils.rows import Estimate


def any_click_rows(evidence: ClickEvidence, where: Row, resamples: QueryBootstrap) -> Iterator[Row]:
    """One row per attack on whether a list has any click, over all lists; `resamples` of their queries.

    `base_rate` is the accuracy of always saying yes.
    """
    rate = resamples.share(evidence.has_click.astype(np.float64))
    for found in any_click_scores(evidence, resamples):
        yield {
            "method": found.method,
            "baseline": found.method in evidence.baselines,
            **where,
            "lists": int(evidence.query.size),
            "lists_with_click": int(evidence.has_click.sum()),
            "queries": int(resamples.names.size),
            **columns("auc", found.auc),
            **columns("accuracy", found.accuracy),
            **columns("base_rate", rate),
        }


def calibration_rows(evidence: ClickEvidence, where: Row, resamples: QueryBootstrap) -> Iterator[Row]:
    """One row per attack whose scores are probabilities, over all lists; `resamples` of their queries."""
    for label in evidence.guessed:
        if label not in evidence.probabilities:
            continue
        found = calibration(evidence, label, resamples)
        yield {
            "method": label,
            "baseline": label in evidence.baselines,
            **where,
            "lists": int(evidence.query.size),
            "documents": found.documents,
            **columns("brier", found.brier),
            **columns("brier_base_rate", found.brier_base_rate),
            **columns("log_loss", found.log_loss),
            **columns("log_loss_base_rate", found.log_loss_base_rate),
            "calibration_error": known(found.error),
            "reliability": [row._asdict() for row in found.reliability],
        }


def identifiability_row(evidence: ClickEvidence, where: Row) -> Row:
    """What the messages can reveal at all, whatever attack reads them.

    Ranks and unknowns are those of messages: equations that are no combination of others, and documents.
    Shares are of all shown documents: `not_observed` were in no pair, `not_told` are combinations of others
    in their message or drown in its rounding, `identifiable` are told and in no list of which all or
    nothing was clicked.
    """
    here, has_click = evidence.is_document, evidence.has_click
    _, first = np.unique(evidence.message, return_index=True)
    rank, unknowns = evidence.rank[first], evidence.unknowns[first]
    return {
        **where,
        "lists": int(evidence.query.size),
        "all_clicked": int((evidence.ties & has_click).sum()),
        "without_click": int((~has_click).sum()),
        "documents": int(here.sum()),
        "not_observed": _share(~evidence.observed, here),
        "not_told": _share(~evidence.told, here),
        "identifiable": _share(evidence.identifiable, here),
        "messages": int(first.size),
        "rank_mean": float(rank.mean()) if first.size else None,
        "rank_min": int(rank.min()) if first.size else None,
        "unknowns_mean": float(unknowns.mean()) if first.size else None,
        "full_rank": float((rank == unknowns).mean()) if first.size else None,
    }


def information_rows(evidence: ClickEvidence, where: Row, resamples: QueryBootstrap) -> Iterator[Row]:
    """One row per attack that weighs click patterns, over all lists; `resamples` of their queries.

    Baselines read no message and have none. See `Information` for the columns.
    """
    for found in information(evidence, resamples):
        if found.method in evidence.baselines:
            continue
        yield {
            "method": found.method,
            "baseline": False,
            **where,
            "lists": found.lists,
            "queries": int(resamples.names.size),
            **columns("bits", found.bits),
            **columns("entropy", found.entropy),
            **columns("share", found.share),
            "exact_posterior": found.exact,
            "bias_bound": known(found.bias_bound),
            "impossible": found.impossible,
            "wrong_prior": found.wrong_prior,
        }


def query_rows(evidence: ClickEvidence, where: Row, queries: Sequence[str]) -> Iterator[Row]:
    """One row per attacked list of the named queries and attack.

    `list` counts the attacked lists of the setting from 0, `shown` holds each document's position inside
    its query from 0, and `clicked`, `guessed` and `scores` go with it. A query without an attacked list has
    one row without method and list.
    """
    for name in queries:
        lists = np.flatnonzero(evidence.query == name).tolist()
        for number in lists:
            for label in evidence.guessed:
                yield _query_row(evidence, where, number, label)
        if not lists:
            nothing: Row = {"shown": [], "clicked": [], "guessed": [], "scores": [], "exact": None}
            beside = {"query": name, "method": None, "baseline": False}
            yield {**beside, **where, "list": None, "message": None, **nothing}


def _query_row(evidence: ClickEvidence, where: Row, number: int, label: str) -> Row:
    here, answer = evidence.is_document[number], evidence.guessed[label]
    clicked, guessed = evidence.clicks[number, here], answer.guess[number, here]
    return {
        "query": str(evidence.query[number]),
        "method": label,
        "baseline": label in evidence.baselines,
        **where,
        "list": number,
        "message": int(evidence.message[number]),
        "shown": evidence.shown[number, here].tolist(),
        "clicked": clicked.tolist(),
        "guessed": guessed.tolist(),
        "scores": answer.scores[number, here].tolist(),
        "exact": bool(np.array_equal(clicked, guessed)),
    }


def refused_rows(evidence: ClickEvidence, where: Row) -> Iterator[Row]:
    """One row per attack that could not run, with the reason."""
    for label, reason in evidence.refused.items():
        yield {"method": label, **where, "reason": reason}


def columns(name: str, score: Estimate) -> Row:
    """A score and its interval, None where unknown."""
    interval = score.ci95
    return {name: known(score.value), f"{name}_ci95": None if interval is None else list(interval)}


def known(value: float | None) -> float | None:
    """A number, or None for NaN, which JSON does not have."""
    return None if value is None or isnan(value) else value


def _share(which: Bools, among: Bools) -> float | None:
    count: Any = among.sum()
    return float((which & among).sum() / count) if count else None
