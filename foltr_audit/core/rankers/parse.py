"""Rankers from text: `linear`, or `neural:hidden=H,layers=L` with optional parameters."""

from __future__ import annotations

from foltr_audit.core.rankers.base import Ranker
from foltr_audit.core.rankers.linear import LinearRanker
from foltr_audit.core.rankers.neural import NeuralRanker, neural_text
from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import whole_number

_EXPECTED = "expected linear or neural:hidden=H,layers=L"
_DEFAULTS = {"hidden": 64, "layers": 1}
_MOST = {"hidden": 1000, "layers": 2}


def make_ranker(text: str, features: int) -> Ranker:
    """The ranker with this text, for documents with `features` features.

    Raises:
        UsageError: an unknown name or parameter, or a refused value.
    """
    try:
        shape = _hidden_layers(text)
    except ValueError as error:
        raise UsageError(f"ranker: {error}") from error
    return LinearRanker(features) if shape is None else NeuralRanker(features, *shape)


def ranker_text(text: str) -> str:
    """The canonical text of a ranker.

    >>> ranker_text("neural"), ranker_text("neural:layers=2,hidden=8")
    ('neural:hidden=64', 'neural:hidden=8,layers=2')

    Raises:
        ValueError: an unknown name or parameter, or a refused value.
    """
    shape = _hidden_layers(text)
    return "linear" if shape is None else neural_text(*shape)


def known_ranker(text: str) -> bool:
    """Whether a text is that of a ranker; in the trace of another system it may not be."""
    try:
        _hidden_layers(text)
    except ValueError:
        return False
    return True


def _hidden_layers(text: str) -> tuple[int, int] | None:
    """Number of units of a hidden layer, and of hidden layers; None for the linear ranker."""
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if name not in ("linear", "neural"):
        raise ValueError(f"unknown {text!r}; {_EXPECTED}")
    given: dict[str, int] = {}
    for item in rest.split(",") if colon else []:
        parameter, _, value = (part.strip() for part in item.partition("="))
        if name == "linear" or parameter not in _DEFAULTS:
            raise ValueError(f"unknown parameter {parameter!r} in {text!r}; {_EXPECTED}")
        if parameter in given:
            raise ValueError(f"{parameter} given twice in {text!r}")
        given[parameter] = _whole(parameter, value, text)
    chosen = _DEFAULTS | given
    return None if name == "linear" else (chosen["hidden"], chosen["layers"])


def _whole(parameter: str, value: str, text: str) -> int:
    most = _MOST[parameter]
    number = whole_number(value, 1, most)
    if number is None:
        raise ValueError(f"{parameter}={value} in {text!r}; expected a whole number from 1 to {most}")
    return number
