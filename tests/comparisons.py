"""Small reports on comparisons that never ran, for tests of what is written of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from foltr_audit.privacy.observers import sees
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.compare import CompareReport, with_front
from foltr_audit.report.results.pareto import ByQuery
from foltr_audit.report.results.provenance import Provenance, Repeated

LEARNER = "fpdgd:pairs=all"

GRID = 'schema = "foltr-audit/grid/1"\ndefenses = ["none", "a<b"]\n'

_METRICS = ("accuracy", "precision", "recall", "f1", "exact", "auc", "tpr_at_1")


def around(value: float | None, width: float = 0.02) -> list[float] | None:
    """An interval about a value."""
    return None if value is None or math.isnan(value) else [max(value - width, 0.0), min(value + width, 1.0)]


def where(name: str, eps: float | None = None, **more: Any) -> Row:
    """The columns that name a setting."""
    return {
        "data": "synthetic:mq2007",
        "scenario": "uniform",
        "click_model": "perfect",
        "learner": LEARNER,
        "name": name if eps is None else f"{name}, eps {eps:g}",
        "alternative": name,
        "eps": eps,
        "sensitivity": None if eps is None else 3.0,
        "defense": name,
        "eps_claimed": math.inf if eps is None else eps,
        "runs": 2,
        **more,
    }


def attack(place: Row, method: str, auc: float | None, *, baseline: bool = False, width: float = 0.02) -> Row:
    """A guesser of a setting."""
    row = {"method": method, "baseline": baseline, **place, "view": "individual", "lists": 100, "queries": 90}
    random = method.startswith("random:")
    for metric in _METRICS:
        row |= {metric: auc, f"{metric}_ci95": around(auc, 0.0 if random else width)}
    return row


def result(place: Row, attacks: Sequence[Row], ndcg: float | None = 0.4, **more: Any) -> Row:
    """The result of a setting."""
    real = [row for row in attacks if not row["baseline"] and row["auc"] is not None]
    best = max(real, key=lambda row: float(row["auc"]), default=None)
    row = {
        **place,
        "runs_asked": place["runs"],
        "attack": None if best is None else best["method"],
        "attacks": len(real),
    }
    for metric in _METRICS:
        row |= {metric: best and best[metric], f"{metric}_ci95": best and best[f"{metric}_ci95"]}
    row |= {"lists": 100, "baseline": None, "baseline_auc": None, "evaluated_on": "the test part"}
    for name, value in (("ndcg@10", ndcg), ("online_mean", 0.35)):
        row |= {name: value, f"{name}_ci95": around(value, 0.05)}
        row |= {f"{name}_{what}": None for what in ("difference", "difference_ci95", "p")}
    groups = (
        "worst_served_group",
        "worst_served_online",
        "groups",
        "worst_attacked_group",
        "worst_attacked_auc",
    )
    return row | {"bytes_per_client": 184.0} | dict.fromkeys(groups) | more


def checked(verdict: str, *, measured: float = 0.5, exact: float | None = None) -> Row:
    """The columns of an audited view of a result."""
    return {
        "eps_claimed_individual": 1.2,
        "eps_proven_individual": 1.2 if verdict == "proven" else math.inf,
        "eps_exact_individual": exact,
        "eps_measured_individual": measured,
        "eps_ceiling_individual": 4.9,
        "delta_individual": 0.0,
        "verdict_individual": verdict,
    }


def claim(
    place: Row, verdict: str, *, measured: float = 0.5, exact: float | None = None, view: str = "individual"
) -> Row:
    """A checked claim of a setting."""
    return {
        **{name: place[name] for name in ("learner", "scenario", "name", "defense", "eps_claimed")},
        "view": view,
        "sees": sees(view),
        "unit": "interaction",
        "canary": "data:worst",
        "delta": 0.0,
        "eps_upper": 1.2 if verdict == "proven" else math.inf,
        "eps_upper_run": math.inf,
        "eps_exact": exact,
        "eps_lower": measured,
        "eps_ceiling": 4.9,
        "confidence": 0.95,
        "trials": 500,
        "verdict": verdict,
        "why": "so it is",
        "declared": "as declared",
        "declared_why": "",
        "upper_how": "by accounting",
    }


def curve(place: Row) -> Row:
    """Learning curves of a setting; the first round was not evaluated."""
    return {
        **place,
        "round": [0, 1, 2],
        "online_ndcg@10": [0.2, 0.3, 0.35],
        "offline_ndcg@10": [math.nan, 0.3, 0.4],
    }


def guesses(place: Row) -> list[Row]:
    """Guesses without a message: random .5, by position .6, by grades .9."""
    named = {"random:k=3": 0.5, "position-prior": 0.6, "relevance-prior": 0.9}
    return [attack(place, method, auc, baseline=True) for method, auc in named.items()]


def setting(
    name: str, eps: float | None = None, *, auc: float | None = 0.7, ndcg: float | None = 0.4, **more: Any
) -> dict[str, list[Row]]:
    """All rows of a setting whose best attack is `map`; more columns of its result."""
    place = where(
        name,
        eps,
        **{
            key: more.pop(key)
            for key in ("click_model", "learner", "scenario", "runs", "data")
            if key in more
        },
    )
    attacks = [*guesses(place)] + (
        [] if auc is None else [attack(place, "olsr", 0.4), attack(place, "map:guess=x", auc)]
    )
    return {"results": [result(place, attacks, ndcg, **more)], "attacks": attacks, "curves": [curve(place)]}


def against(difference: float, p: float) -> Row:
    """The columns of a difference in nDCG@10 to no defense."""
    ends = [difference - 0.01, difference + 0.01]
    return {"ndcg@10_difference": difference, "ndcg@10_difference_ci95": ends, "ndcg@10_p": p}


def same_queries(ndcg: float | None) -> ByQuery:
    """Three queries of equal nDCG, so that any difference to others like them is certain."""
    return np.array(["a", "b", "c"]), np.full(3, np.nan if ndcg is None else ndcg)


def report(*settings: dict[str, list[Row]], **more: Any) -> CompareReport:
    """A report on some settings."""
    rows = {kind: [row for one in settings for row in one[kind]] for kind in ("results", "attacks", "curves")}
    fold = {"fingerprint": "ab12", "fold": 0, "train": 3, "vali": 1, "test": 1}
    shared = {"source": "synthetic:mq2007", "synthetic": True, "normalised": "zscore", "features": 46}
    nothing: dict[str, Any] = {name: [] for name in ("left_out", "failed", "warnings", "claims", "groups")}
    return CompareReport(
        **{
            **nothing,
            "config": {"runs": 2},
            "dataset": {**shared, "folds": [fold]} if settings else {},
            "cells": {"attack": 2 * len(settings), "audit": 0},
            **rows,
            "results": with_front(rows["results"], [same_queries(row["ndcg@10"]) for row in rows["results"]]),
            **more,
        }
    )


def several() -> CompareReport:
    """Three defenses: one that leaks, one that costs, one that is cheap."""
    noisy = where("laplace", 1.2)
    return report(
        setting("none", auc=0.99, ndcg=0.45),
        setting(
            "published", 1.2, auc=0.98, ndcg=0.45, **against(-0.001, 0.8), **checked("refuted", measured=4.5)
        ),
        setting("laplace", 1.2, auc=0.55, ndcg=0.30, **against(-0.15, 0.001), **checked("proven")),
        setting("skellam", 1.2, auc=0.56, ndcg=0.44, **against(-0.01, 0.4), **checked("proven")),
        claims=[claim(where("published", 1.2), "refuted", measured=4.5), claim(noisy, "proven", exact=1.2)],
        warnings=[{"name": "published, eps 1.2", "learner": LEARNER, "warning": "noise of 1/1000"}],
    )


def provenance() -> Provenance:
    """How the report of a test was made."""
    cell = Repeated(
        "none, perfect clicks, run 0", "attack", "foltr-audit attack --config cells/0123456789ab/spec.toml"
    )
    return Provenance(grid=GRID, seeds=[1], versions={"foltr-audit": "0.1.0", "Python": "3.11"}, cells=[cell])
