"""Rankers by their text: `linear`, `neural` or `neural:hidden=H`."""

from __future__ import annotations

import re

from foltr_audit.errors import UsageError
from foltr_audit.rankers.base import Ranker
from foltr_audit.rankers.linear import LinearRanker
from foltr_audit.rankers.neural import NeuralRanker

_EXPECTED = "expected linear or neural:hidden=H"
_DEFAULT_HIDDEN = 10
_MOST_HIDDEN = 1000


def make_ranker(text: str, features: int) -> Ranker:
    """The ranker that a text names, for documents of so many features.

    Raises:
        UsageError: an unknown name or parameter, or a refused value.
    """
    try:
        hidden = _hidden(text)
    except ValueError as error:
        raise UsageError(f"ranker: {error}") from error
    return LinearRanker(features) if hidden is None else NeuralRanker(features, hidden)


def ranker_text(text: str) -> str:
    """The canonical text of a ranker.

    >>> ranker_text("neural")
    'neural:hidden=10'

    Raises:
        ValueError: an unknown name or parameter, or a refused value.
    """
    hidden = _hidden(text)
    return "linear" if hidden is None else f"neural:hidden={hidden}"


def known_ranker(text: str) -> bool:
    """Whether a text, e.g. of another system's trace, names a ranker."""
    try:
        _hidden(text)
    except ValueError:
        return False
    return True


def _hidden(text: str) -> int | None:
    """Number of hidden units; None for the linear ranker."""
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if name not in ("linear", "neural"):
        raise ValueError(f"unknown {text!r}; {_EXPECTED}")
    if not colon:
        return None if name == "linear" else _DEFAULT_HIDDEN
    parameter, _, value = (part.strip() for part in rest.partition("="))
    if name == "linear" or parameter != "hidden":
        raise ValueError(f"unknown parameter {parameter!r} in {text!r}; {_EXPECTED}")
    if not re.fullmatch(r"[0-9]{1,9}", value) or not 1 <= int(value) <= _MOST_HIDDEN:
        raise ValueError(f"hidden={value} in {text!r}; expected a whole number from 1 to {_MOST_HIDDEN}")
    return int(value)
