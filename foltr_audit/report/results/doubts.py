"""Warnings about results of an attack that are impossible if the declared facts are right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from foltr_audit.report.results.base import Row
from foltr_audit.report.results.meaning import reads_backwards, same_setting
from foltr_audit.utils.formatting import short


def doubt_rows(results: Sequence[Row]) -> list[Row]:
    """Warnings about attacks that are worse than they can be, a row each.

    An AUC significantly below one half is not due to chance. `map` weighs every click pattern by the declared
    step; where `lad`, which knows less, is clearly right more often on the same lists, that step is wrong.
    """
    attacks = [row for row in results if not row["baseline"] and not math.isnan(row["auc"])]
    backwards = reads_backwards(attacks)
    texts = [*([] if backwards is None else [backwards]), *_map_below_lad(attacks)]
    return [{"warning": text} for text in texts]


def _map_below_lad(rows: Sequence[Row]) -> Iterator[str]:
    for best in (row for row in rows if row["method"] == "map"):
        for other in (row for row in rows if row["method"] == "lad" and same_setting(row, best)):
            if best["exact_ci95"] is None or other["exact_ci95"] is None:
                continue
            if best["exact_ci95"][1] < other["exact_ci95"][0]:
                yield (
                    f"map reads {short(best['exact'])} of the lists with {best['click_model']} clicks right, "
                    f"and lad, which needs fewer facts, {short(other['exact'])}: "
                    "the declared facts do not fit the messages"
                )
