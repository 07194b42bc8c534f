"""Words and numbers in text that the terminal and the page share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.plugins.base import name_in
from foltr_audit.report.tables.table import Mark

FRONT = (
    "its claim is not shown to be false, and no such row is as good in both and shown to be better in one "
    "(by the 95 % interval of the difference); an AUC below .5, or no sum to attack, counts as .5"
)
"""A definition of the front."""

CHOSEN = "chosen on the lists that it is shown on, so a little high"
"""A note on the values of the best attack."""

PROMISE = (
    "the largest AUC that any attack can have, by the proof of one interaction, where all documents are "
    "equally likely clicked"
)
"""What a proof says of the attacked messages."""

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


def measured(confidence: float) -> str:
    """A note on measured epsilons.

    Args:
        confidence: of each, e.g. .95.
    """
    return f"each at {100 * confidence:g} % confidence, not corrected for several claims"


def evaluated_part(parts: Iterable[str]) -> str:
    """Which queries the offline nDCG@10 of some results is of."""
    return " or ".join(dict.fromkeys(parts))


def delta_text(delta: float) -> str:
    """The delta of a claim as text; empty where it is 0.

    >>> delta_text(1e-5), delta_text(0.0)
    ('delta 1e-05', '')
    """
    return f"delta {delta:g}" if delta else ""


def counted(count: int, noun: str) -> str:
    """A number of things: `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
    return text if text.startswith("random:") else name_in(text)
