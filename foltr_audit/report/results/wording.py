"""Words and numbers in text that the terminal and the page share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.report.results.base import Row
from foltr_audit.report.tables.table import Mark

FRONT = (
    "its claim is not shown to be false, and no such row is as good in both and shown to be better in one "
    "(by the 95 % interval of the difference); an AUC below .5 counts as .5"
)
"""A definition of the front."""

CHOSEN = "chosen on the lists that it is shown on, so a little high"
"""A note on the values of the best attack."""

FIXED = "over queries, with the trained models held fixed (repetitions are averaged first)"
"""What the intervals and p-values of offline nDCG@10 are over."""


_MOST = 4  # names in one sentence


def verdict_text(claimed: float, verdict: str) -> str:
    """The verdict on a claim; `no claim` where none is made, since not to be refuted is then no merit.

    >>> verdict_text(math.inf, "not refuted")
    'no claim'
    """
    return "no claim" if math.isinf(claimed) and verdict == "not refuted" else verdict


def verdict_mark(verdict: str) -> Mark:
    """How a verdict is highlighted: as bad where a claim is false, as good where it is proven."""
    return "bad" if verdict in (*FALSE, CONTRADICTION) else "good" if verdict == "proven" else ""


def verdicts_on(row: Row) -> dict[str, str]:
    """The verdict on the claim of a row of results by audited view; only of views with a claim.

    >>> verdicts_on({"eps_claimed_individual": 1.2, "verdict_individual": "proven"})
    {'individual': 'proven'}
    """
    audited = (view for view in VIEWS if f"verdict_{view}" in row)
    return {
        view: str(row[f"verdict_{view}"]) for view in audited if not math.isinf(row[f"eps_claimed_{view}"])
    }


def measured(confidence: float) -> str:
    """A note on measured epsilons.

    Args:
        confidence: of each, e.g. .95.
    """
    return f"each at {100 * confidence:g} % confidence, not corrected for several claims"


def evaluated_part(rows: Sequence[Row]) -> str:
    """Which queries the offline nDCG@10 of some results is of."""
    return " or ".join(dict.fromkeys(str(row["evaluated_on"]) for row in rows))


def claimed_delta(row: Row) -> str:
    """`delta 1e-05`, the largest of the views that were audited; empty where it is 0, or not audited.

    >>> claimed_delta({"delta": 1e-5}), claimed_delta({"delta_individual": 0.0})
    ('delta 1e-05', '')
    """
    delta = max((value for name, value in row.items() if name.split("_")[0] == "delta"), default=0.0)
    return f"delta {delta:g}" if delta else ""


def counted(count: int, noun: str) -> str:
    """A number of things: `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def is_or_are(count: int) -> str:
    """The verb that goes with a number of things."""
    return "is" if count == 1 else "are"


def join_names(names: Sequence[str], word: str = "and") -> str:
    """Names with a word before the last one."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def shortened(these: Sequence[object], most: int = _MOST) -> str:
    """Names in a sentence, not too many."""
    names = list(map(str, these))
    if len(names) <= most + 1:
        return "; ".join(names)
    return "; ".join(names[:most]) + f"; and {len(names) - most} more"


def whole_percent(share: float | None) -> str:
    """A share in a sentence; `none` where there is none.

    >>> whole_percent(0.314), whole_percent(None)
    ('31 %', 'none')
    """
    return "none" if share is None or math.isnan(share) else f"{100 * share:.0f} %"


def short_method(text: str) -> str:
    """A method without its parameters, e.g. `map` for `map:guess=pattern`; random guesses keep theirs."""
    return text if text.startswith("random:") else text.partition(":")[0]
