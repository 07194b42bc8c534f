"""Figures published on Istella-S, to compare with: those of the preset of this study.

Source: "Learning to rank for non independent and identically distributed datasets" (2024), abstract, sections
1 and 5.2, and tables 1, 3, 4 and 5. Its tables 3 and 4 give different nDCG@10 of one model on the whole test
part, e.g. .543 and .619 of M_1 in split 1; both are reproduced as published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from foltr_audit.experiments.presets import load_preset

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
