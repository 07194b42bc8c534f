"""Limits on values that are read from text: numbers of 64 bits, valid Unicode, few levels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard

from foltr_audit.errors import FoltrAuditError

MOST_LEVELS = 32
"""Lists and tables inside each other; no file of ours has ten."""

LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**64 - 1

_TOO_LARGE = "a whole number beyond 64 bits; expected a smaller one"
_DIGITS = re.compile(r"[0-9]{1,20}")


class InvalidValueError(ValueError):
    """A value that no file of ours holds; the message says what it is and what was expected."""


@contextmanager
def parsing(kind: str, where: str, error: type[FoltrAuditError]) -> Iterator[None]:
    """Turn what parsers and `refuse_odd` raise about a text into one error of one line.

    Args:
        kind: what the text is to be, e.g. `JSON`.
        where: names the text.
        error: what to raise.
    """
    try:
        yield
    except RecursionError as problem:
        raise error(f"{where}: not {kind}: too many levels of lists and tables; expected fewer") from problem
    except ValueError as problem:
        raise error(f"{where}: not {kind}: {_reason(problem)}") from problem


def _reason(problem: ValueError) -> str:
    """What the parser says, on one line, without Python's advice on numbers of thousands of digits."""
    text = " ".join(str(problem).split())
    return _TOO_LARGE if "set_int_max_str_digits" in text else text


def refuse_odd(value: object, *, finite: bool) -> None:
    """Refuse a value that no file of ours holds, or that holds one.

    Args:
        value: what a parser returned.
        finite: whether infinity and NaN are refused.

    Raises:
        InvalidValueError: a number beyond 64 bits, text that is not valid Unicode, a date, too many levels,
            or, where refused, a number that is not finite.
    """
    # Level by level, not by recursion: the file decides how deep its lists and tables go.
    below: list[object] = [value]
    for _ in range(MOST_LEVELS):
        level, below = below, []
        for one in level:
            if isinstance(one, dict):
                below += one.keys()
                below += one.values()
            elif isinstance(one, list):
                below += one
            else:
                _refuse_odd_leaf(one, finite=finite)
        if not below:
            return
    raise InvalidValueError(f"more than {MOST_LEVELS} levels of lists and tables; expected fewer")


def _refuse_odd_leaf(value: object, *, finite: bool) -> None:
    if isinstance(value, str):
        # JSON can spell half of a character as an escape. Python keeps it, and fails only when the text is
        # written.
        if not value.isascii():
            _refuse_surrogates(value)
    elif isinstance(value, float):
        if finite and not math.isfinite(value):
            raise InvalidValueError("a number that is not finite; expected finite numbers")
    elif isinstance(value, int):
        if not LEAST_WHOLE <= value <= MOST_WHOLE:
            raise InvalidValueError(_TOO_LARGE)
    elif value is not None:
        raise InvalidValueError(f"a {type(value).__name__}; expected text, numbers, lists and tables")


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        where = ascii(text[max(0, error.start - 10) : error.end])
        raise InvalidValueError(f"text {where} with half of a character; expected valid Unicode") from error


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Whether a value is a whole number between two bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def whole_number(text: str, least: int, most: int) -> int | None:
    """The number that a text of plain decimal digits names, if it lies between two bounds; else None.

    Digits of other scripts (`²`, `٣`), signs, spaces and more than 20 digits are no number here.

    >>> whole_number("12", 1, 99), whole_number("²", 1, 99), whole_number("100", 1, 99)
    (12, None, None)
    """
    if _DIGITS.fullmatch(text) is None:
        return None
    number = int(text)
    return number if least <= number <= most else None
