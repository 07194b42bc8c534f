"""Whole numbers in text."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[0-9]{1,20}")


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
