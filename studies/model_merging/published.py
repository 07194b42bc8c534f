"""Figures published on Istella-S, to compare with: those of the preset of this study.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), tables 1, 3, 4
and 5, and the weights in section 5.2. Its tables 3 and 4 give different nDCG@10 of one model on the whole
test part, e.g. .543 and .619 of M_1 in split 1; both are reproduced as published.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from foltr_audit.studies.model_merging.splits import Method

from foltr_audit.experiments.presets import load_preset

PRESET = "non-iid-ltr-2024"
SOURCE = "non-IID LTR 2024, tables 1, 3, 4 and 5"
DATA = "Istella-S"

MODELS = ("M_1", "M_2", "M_full")
GROUPS = ("DS_1", "DS'_2", "DS")

_Key = tuple[str, str, frozenset[tuple[str, Any]]]


@cache
def _figures() -> Mapping[_Key, float]:
    """Every published number, by its table, its metric and its row."""
    figures = load_preset(PRESET).published.figures
    return {(one.cell, one.metric, frozenset(one.where.items())): one.value for one in figures}


def _figure(cell: str, metric: str, **where: object) -> float:
    return _figures()[cell, metric, frozenset(where.items())]


def local_ndcg(method: Method, number: int, model: str, group: str) -> float:
    """Tables 1 and 3: nDCG@10 of a model on a group of test queries, for the first (0) or second category.

    In table 1 the second group is all of DS_2.
    """
    on = "DS_2" if method == "initial" and group == "DS'_2" else group
    return _figure("local", "ndcg@10", method=method, choice=number + 1, model=model, on=on)


def merged_metric(split: int, model: str, metric: str) -> float:
    """Tables 4 and 5: a metric of a local or merged model on the whole test part."""
    return _figure("merged", metric, split=split, model=model)


def alpha(split: int, client: int) -> float:
    """The weight of the second model that client 1 or 2 selected."""
    return _figure("weights", "alpha", split=split, client=client)
