"""Rows of the report of `recommend`."""

from __future__ import annotations

from dataclasses import dataclass

from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.utils.rows import Estimate, ResultRow, column


@dataclass(frozen=True, kw_only=True)
class CandidateRow(ResultRow):
    """One candidate: what is proven for it, and its results on the validation split.

    Attributes:
        candidate: its number in the search, from 1.
        name, alternative, eps, norm: the defense, what it was made for, and its clip norm.
        defense, options: the chain, and as options of the other commands; empty if it was refused.
        eps_proven, delta, how: what is proven of a message, and how.
        auc_proven: the AUC that the proof leaves to any attack on a click.
        run: what is proven of the whole run; None where it was refused.
        ndcg: mean nDCG@10; None where it was not run.
        attack, auc, queries: the attack with the largest upper end of its AUC, and how many queries with a
            click it was tried on.
        excess: by how much that exceeds the limit.
        outcome, why: what came of it, and why it was refused or failed.
    """

    candidate: int
    name: str
    alternative: str
    eps: float | None
    norm: float | None
    defense: tuple[str, ...]
    options: str
    eps_proven: float | None
    auc_proven: float | None
    delta: float | None
    how: str | None
    run: RunBoundRow | None
    ndcg: float | None = column("ndcg@10_validation")
    attack: str | None
    auc: Estimate
    queries: int | None = column("attacked_queries")
    excess: float | None
    outcome: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SearchCounts(ResultRow):
    """How many candidates were run, how many were different, and what came of them."""

    candidates: int
    different: int
    kept: int
    above_auc: int
    refused: int
    failed: int
    defenses_refused: int
