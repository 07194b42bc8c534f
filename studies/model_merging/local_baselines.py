"""Compares merged models with the two local ones on the whole test part: metrics, paired tests, verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from foltr_audit.studies.model_merging import published
from foltr_audit.studies.model_merging.lambdamart import METRICS

from foltr_audit.judge.significance import bonferroni, paired_t_test
from foltr_audit.utils.arrays import Floats

Metrics = Mapping[str, Floats]  # of each test query, (queries,), by name

LOCAL = {"M_1": "a", "M_2": "b"}
"""The local models, and the letters that mark a difference from them."""

MERGED = {"linear": ("M_12a", "M_21a"), "stacking": ("M_12S", "M_21S")}
"""The merged models of the two clients, by method."""

SIGNIFICANT = 0.05
"""A corrected p-value below this is marked."""


def compared_rows(split: int, metrics: Mapping[str, Metrics]) -> list[dict[str, Any]]:
    """One row for each model and metric of a split, from the metrics of each model by name.

    A merged model and a local one are compared by a paired t-test over the test queries. Bonferroni's
    correction counts the four tests of a method and metric: two clients, each with two local models.
    """
    rows = []
    for metric in METRICS:
        rows += [_row(split, name, metric, metrics[name]) for name in LOCAL]
        for method, names in MERGED.items():
            pairs = [(merged, local) for merged in names for local in LOCAL]
            tests = [
                paired_t_test(metrics[merged][metric], metrics[local][metric]) for merged, local in pairs
            ]
            corrected = dict(zip(pairs, bonferroni([test.p for test in tests]), strict=True))
            for name in names:
                row = _row(split, name, metric, metrics[name])
                marks = [letter for local, letter in LOCAL.items() if corrected[name, local] < SIGNIFICANT]
                p_a, p_b = (corrected[name, local] for local in LOCAL)
                rows.append(row | {"method": method, "p_a": p_a, "p_b": p_b, "marks": "".join(marks)})
    return rows


def _row(split: int, model: str, metric: str, metrics: Metrics) -> dict[str, Any]:
    return {
        "split": split,
        "model": model,
        "method": "local",
        "metric": metric,
        "value": float(metrics[metric].mean()),
        "p_a": None,
        "p_b": None,
        "marks": "",
        "published": published.merged_metric(split, model, metric),
    }


def verdict_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The number of merged models of each method that beat the better local model of their split."""
    found = []
    numbers = list(dict.fromkeys(row["split"] for row in rows))
    for metric in METRICS:
        for method, names in MERGED.items():
            better = {split: _better(rows, split, metric, names) for split in numbers}
            flat = [one for pair in better.values() for one in pair]
            found.append(
                {
                    "method": method,
                    "metric": metric,
                    "models": len(flat),
                    "better": sum(is_better for is_better, _ in flat),
                    "significant": sum(is_significant for _, is_significant in flat),
                    "of_splits": len(numbers),
                    "splits": sum(any(one for one, _ in pair) for pair in better.values()),
                    "both": sum(all(one for one, _ in pair) for pair in better.values()),
                }
            )
    return found


def _better(
    rows: Sequence[Mapping[str, Any]], split: int, metric: str, names: Sequence[str]
) -> list[tuple[bool, bool]]:
    """Whether each merged model of a split beats the better local one, and whether significantly."""
    mine = {row["model"]: row for row in rows if row["split"] == split and row["metric"] == metric}
    local = max(LOCAL, key=lambda name: float(mine[name]["value"]))
    better = [mine[name]["value"] > mine[local]["value"] for name in names]
    marked = [LOCAL[local] in mine[name]["marks"] for name in names]
    return [(is_better, is_better and mark) for is_better, mark in zip(better, marked, strict=True)]
