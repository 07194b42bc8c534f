"""Facts and texts in the form in which a trace can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

FIXED_FACTS = frozenset(
    [
        *("of", "width", "bits", "fraction", "range", "intents", "masking", "clipping_range"),
        *("quantization_range", "modulus_bits", "max_weight"),
    ]
)
"""Facts that say what the columns of a trace hold; no round may have others."""

MOST_TEXT = 200
"""Characters that are kept of a name or reason that others chose: every row takes as many as the longest."""


def plain_facts(facts: Mapping[str, object], *, of_round: bool = False) -> dict[str, object]:
    """Facts with NumPy's numbers as plain ones.

    Args:
        facts: by name.
        of_round: whether they hold in one round only.

    Raises:
        ValueError: a fact that is no text, number, true or false, or list of texts; of a round one of
            `FIXED_FACTS`, or a number that is not finite.
    """
    found = {name: value.item() if isinstance(value, np.generic) else value for name, value in facts.items()}
    for name, value in found.items():
        texts = isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
        number = isinstance(value, int | float) and not math.isnan(value)
        if not isinstance(name, str) or not (texts or number or isinstance(value, str)):
            raise ValueError(
                f"fact {name} is {value!r:.80}; expected text, a number (not NaN), true or false, or texts"
            )
        if of_round and (name in FIXED_FACTS or (isinstance(value, float) and math.isinf(value))):
            expected = "that of the trace" if name in FIXED_FACTS else "a finite number"
            raise ValueError(f"fact {name} of a round is {value!r:.80}; expected {expected}")
    return found


def plain_text(text: str) -> str:
    """A text that others chose: one line of at most `MOST_TEXT` characters, all of them printable."""
    if len(text) <= MOST_TEXT and text.isprintable():
        return text
    line = " ".join(text[: 4 * MOST_TEXT].split())[:MOST_TEXT]
    return "".join(letter if letter.isprintable() else "?" for letter in line)
