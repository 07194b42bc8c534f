"""Compares merged models with the local ones on the whole test part, and with the figures of the preset.

Source of the figures: "Learning to rank for non independent and identically distributed datasets" (2024),
sections 1 and 5.2, and tables 1, 3, 4 and 5. Its tables 3 and 4 give different nDCG@10 of one model on the
whole test part, e.g. .543 and .619 of M_1 in split 1; both are reproduced as published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from foltr_audit.studies.model_merging.splits import PAIR
from foltr_audit.studies.model_merging.trainers import METRICS

from foltr_audit.experiments.presets import load_preset
from foltr_audit.judge.significance import bonferroni, paired_t_test
from foltr_audit.utils.arrays import Floats

Metrics = Mapping[str, Floats]  # of each test query, (queries,), by name
Rows = Sequence[Mapping[str, Any]]

METHODS = {"linear": "a", "stacking": "S"}
"""The ways to merge, and the last letters of the names of their models."""

SIGNIFICANT = 0.05
"""A corrected p-value below this is marked."""


PRESET = "non-iid-ltr-2024"
SOURCE = "non-IID LTR 2024, tables 1, 3, 4 and 5"
DATA = "Istella-S"


@cache
def _figures() -> Mapping[tuple[str, str, frozenset[tuple[str, Any]]], float]:
    figures = load_preset(PRESET).published.figures
    return {(one.cell, one.metric, frozenset(one.where.items())): one.value for one in figures}


def figure(cell: str, metric: str, /, **where: object) -> float:
    """The number published for a metric in a row of a table, named as in the preset; NaN if there is none."""
    return _figures().get((cell, metric, frozenset(where.items())), math.nan)


def local_names(clients: int) -> dict[str, str]:
    """The local model of each client, and the letter that marks a difference from it.

    >>> local_names(2)
    {'M_1': 'a', 'M_2': 'b'}
    """
    return {f"M_{client}": letter for client, letter in zip(range(1, clients + 1), "abcdefghi", strict=False)}


def merged_name(client: int, clients: int) -> str:
    """The merged model of a client, without its last letter: its own model comes first.

    >>> merged_name(2, 3)
    'M_213'
    """
    return "M_" + "".join(map(str, sorted(range(1, clients + 1), key=lambda one: (one != client, one))))


def compared_rows(split: int, metrics: Mapping[str, Metrics], clients: int) -> list[dict[str, Any]]:
    """One row for each model and metric of a split, from the metrics of each model by name.

    A merged model and a local one are compared by a paired t-test over the test queries. Bonferroni's
    correction counts the tests of a method and metric: each client's model with each local one.
    """
    rows = []
    local = local_names(clients)
    none = {f"p_{letter}": None for letter in local.values()}
    for metric in METRICS:
        rows += [_row(split, "local", name, metric, metrics, none) for name in local]
        for method, last in METHODS.items():
            names = [merged_name(client, clients) + last for client in range(1, clients + 1)]
            pairs = [(merged, name) for merged in names for name in local]
            tests = [paired_t_test(metrics[merged][metric], metrics[name][metric]) for merged, name in pairs]
            corrected = dict(zip(pairs, bonferroni([test.p for test in tests]), strict=True))
            for name in names:
                p = {f"p_{letter}": corrected[name, other] for other, letter in local.items()}
                rows.append(_row(split, method, name, metric, metrics, p))
    return rows


def _row(
    split: int, method: str, model: str, metric: str, metrics: Mapping[str, Metrics], p: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "split": split,
        "model": model,
        "method": method,
        "metric": metric,
        "value": float(metrics[model][metric].mean()),
        **p,
        "marks": "".join(name[-1] for name, one in p.items() if one is not None and one < SIGNIFICANT),
        "published": figure("merged", metric, split=split if len(p) == PAIR else None, model=model),
    }


def verdict_rows(rows: Rows) -> list[dict[str, Any]]:
    """The number of merged models of each method that beat the better local model of their split.

    The largest relative gain is that of a split and client, over any local model and over the better one of
    the split. The paper states the first; the second follows from its tables.
    """
    found = []
    numbers = list(dict.fromkeys(row["split"] for row in rows))
    for metric in METRICS:
        for method in METHODS:
            groups = [
                [row for row in rows if (row["split"], row["metric"]) == (split, metric)] for split in numbers
            ]
            better = [_better(group, method) for group in groups]
            flat = [one for split in better for one in split]
            published = _gain(groups, method, "published", max)
            stated = figure("verdicts", "largest_gain", method=method, metric=metric)
            found.append(
                {
                    "method": method,
                    "metric": metric,
                    "models": len(flat),
                    "better": sum(is_better for is_better, _ in flat),
                    "significant": sum(is_significant for _, is_significant in flat),
                    "of_splits": len(numbers),
                    "splits": sum(any(one for one, _ in split) for split in better),
                    "both": sum(all(one for one, _ in split) for split in better),
                    "largest_gain": _gain(groups, method, "value", min),
                    "largest_gain_over_better": _gain(groups, method, "value", max),
                    "published_gain": math.nan if math.isnan(published) else stated,
                    "published_gain_over_better": published,
                }
            )
    return found


def _better(rows: Rows, method: str) -> list[tuple[bool, bool]]:
    """Whether each merged model of a split beats the best local one, and whether significantly."""
    local, merged = ([row for row in rows if row["method"] == name] for name in ("local", method))
    best = max(local, key=lambda row: float(row["value"]))
    letter = local_names(len(local))[best["model"]]
    better = [row["value"] > best["value"] for row in merged]
    return [(one, one and letter in row["marks"]) for one, row in zip(better, merged, strict=True)]


def _gain(
    groups: Sequence[Rows], method: str, column: str, of_local: Callable[[Iterable[float]], float]
) -> float:
    """The largest relative gain of a merged model over the local one of its split that `of_local` takes."""
    gains = []
    for rows in groups:
        local = of_local(row[column] for row in rows if row["method"] == "local")
        merged = max(row[column] for row in rows if row["method"] == method)
        gains.append(merged / local - 1 if local else math.nan)
    return max(gains)
