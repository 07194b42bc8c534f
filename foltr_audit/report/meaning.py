"""One sentence that says what the numbers of an attack mean, every number taken from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.report.base import Row
from foltr_audit.report.plain import epsilon

BASELINES = ("random:", "first-position")


def is_baseline(method: str) -> bool:
    """Whether a row is shown for comparison only."""
    return method.startswith(BASELINES)


def meaning(results: Sequence[Row]) -> str:
    """What the strongest attack on the smallest claimed epsilon shows."""
    rows = [row for row in results if not is_baseline(row["method"]) and not math.isnan(row["auc"])]
    if not rows:
        return "No list with a click was attacked, so nothing can be said."
    smallest = min(row["eps_claimed"] for row in rows)
    row = max((row for row in rows if row["eps_claimed"] == smallest), key=lambda row: float(row["auc"]))
    guess = next(
        other
        for other in results
        if other["method"] == "random:k=3"
        and all(other[name] == row[name] for name in ("click_model", "trained_on", "defense"))
    )
    claim = (
        "Without a claimed epsilon"
        if math.isinf(smallest)
        else f"At a claimed epsilon of {epsilon(smallest)}"
    )
    if row["auc_ci95"] is None or not row["auc_ci95"][0] > 0.5:
        return (
            f"{claim}, {row['method']} is not shown to be better than guessing: AUC {row['auc']:.2f} "
            f"({_interval(row['auc_ci95'])}) on {row['lists']} lists."
        )
    return (
        f"{claim}, a server that sees single messages finds {_percent(row['recall'])} of the "
        f"{row['click_model']} users' clicks with {row['method']}, and {_percent(row['precision'])} of what "
        f"it names was clicked (three random guesses: {_percent(guess['recall'])} and "
        f"{_percent(guess['precision'])})."
    )


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{100 * share:.0f} %"


def _interval(ci95: Sequence[float] | None) -> str:
    return "no interval" if ci95 is None else f"95 % interval {ci95[0]:.2f}-{ci95[1]:.2f}"
