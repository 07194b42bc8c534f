"""Facts as a trace can hold them, and plain tables as TOML text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

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


def toml_text(table: Mapping[str, object]) -> str:
    """A table as TOML: first its plain values, then its tables, each in the order given.

    A value is text, a number, true or false, a list of such values or of flat tables; tables are not nested
    deeper than that.

    Raises:
        ValueError: another value, NaN, or text that is not valid Unicode.
    """
    lines = [_line(name, value) for name, value in table.items() if not isinstance(value, Mapping)]
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(name)}]", *(_line(key, inner) for key, inner in value.items())]
    return "\n".join(lines) + "\n"


def _line(name: str, value: object) -> str:
    return f"{_key(name)} = {_value(value, name)}"


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _value(value: object, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float) and not math.isnan(value):
        return repr(float(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(_line(key, inner) for key, inner in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(inner, name) for inner in value) + "]"
    raise ValueError(f"{name} is {value!r}, expected text, a number (not NaN), true or false, or a list")


def _text(text: str) -> str:
    """Text between quotes; JSON's escapes are also TOML's, except that TOML also refuses a bare 0x7f."""
    text.encode("utf-8")  # a lone surrogate has no place in a file
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
