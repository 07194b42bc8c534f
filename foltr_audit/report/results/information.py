"""How many bits the messages reveal of a list's clicks, as rows of a report."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.mutual_information import information
from foltr_audit.report.results.attack_rows import columns, known
from foltr_audit.report.results.base import Row


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
