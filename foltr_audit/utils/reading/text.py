"""Text of untrusted files, up to a bound: JSON as RFC 8259 has it, TOML, and limits on their values."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeGuard

from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils.formatting import JsonValue

MOST_BYTES = 256 << 20
"""A larger file is not read: the results of some 20,000 cells have this size."""

# One `read(most)` would allocate the whole bound, even for a file of a few bytes.
_PIECE_BYTES = 16 << 20


def file_bytes(path: Path, error: type[FoltrAuditError], most: int = MOST_BYTES, who: str = "") -> bytes:
    """The content of a file; `who` comes before its path in messages.

    Raises:
        FoltrAuditError: of the given kind: it is missing, cannot be read, or is larger than `most` bytes.
    """
    pieces: list[bytes] = []
    # One byte beyond the bound tells a file that is too large from one that just fits. The size on disk is no
    # substitute: a device or a pipe has none, and a file may grow while it is read.
    left = most + 1
    try:
        with path.open("rb") as stream:
            while left and (piece := stream.read(min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
    except FileNotFoundError:
        raise error(f"{who}{path}: no such file") from None
    except (OSError, ValueError) as problem:  # ValueError: a name that no file can have
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{who}{path}: cannot be read: {reason}") from problem
    if not left:
        raise error(f"{who}{path}: more than {most} bytes; expected {most} at most")
    return b"".join(pieces)


def file_text(path: Path, error: type[FoltrAuditError], most: int = MOST_BYTES) -> str:
    """The content of a UTF-8 text file."""
    return decoded(file_bytes(path, error, most), str(path), error)


def decoded(content: bytes, where: str, error: type[FoltrAuditError]) -> str:
    """UTF-8 bytes as text."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{where}: byte {problem.start + 1} is not UTF-8; expected UTF-8 text") from problem


MOST_LEVELS = 32
"""Lists and tables inside each other; no file of ours has ten."""

LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**64 - 1

_TOO_LARGE = "a whole number beyond 64 bits; expected a smaller one"
_DIGITS = re.compile(r"[0-9]{1,20}")


class InvalidValueError(ValueError):
    """A value that no file of ours holds; the message says what it is and what was expected."""


@contextmanager
def parsing(kind: str, where: str, error: type[FoltrAuditError]) -> Iterator[None]:
    """Turn what parsers and `refuse_odd` raise about a text into one error of one line."""
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

    `finite`: whether infinity and NaN are refused.

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


def json_value(content: bytes | str, where: str, error: type[FoltrAuditError]) -> JsonValue:
    """The value of a JSON text.

    Raises:
        FoltrAuditError: of the given kind: it is no JSON, a table has a key twice, or it holds NaN, an
            infinity, a whole number beyond 64 bits, half of a character or too many levels.
    """
    text = decoded(content, where, error) if isinstance(content, bytes) else content
    with parsing("JSON", where, error):
        value: JsonValue = json.loads(
            text, object_pairs_hook=_table, parse_int=_whole, parse_constant=_refuse_constant
        )
        refuse_odd(value, finite=True)
    return value


def json_table(content: bytes | str, where: str, error: type[FoltrAuditError]) -> dict[str, JsonValue]:
    """The object of a JSON text; a value that is none is an error."""
    value = json_value(content, where, error)
    if not isinstance(value, dict):
        raise error(f"{where}: {_KINDS.get(type(value), 'null')}; expected a JSON object")
    return value


_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}
_MOST_DIGITS = 20  # of 2^64


def _table(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    # Parsers differ on which of two equal keys counts, so a file with both could mean two things.
    table = dict(pairs)
    if len(table) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise InvalidValueError(f"{twice[:40]!a} is given twice; expected each name once")
    return table


def _whole(digits: str) -> int:
    # Checked before `int`, whose time grows faster than the number of digits.
    if len(digits.removeprefix("-")) > _MOST_DIGITS:
        raise InvalidValueError(_TOO_LARGE)
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidValueError(f"{name}; expected finite numbers")


MOST_CHARACTERS = 4 << 20
"""A longer text is not parsed: it would take seconds."""

# Possessive repeats (`}+`, `*+`) never backtrack, so a hostile text cannot make this search slow.
_PART = r"""(?:[\w-]{1,99}+|"[^"\n]{0,99}+"|'[^'\n]{0,99}+')"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_LEVELS},}}+")
"""A name of many parts: the parser's time grows with the square of their number."""


def toml_table(text: str, where: str, error: type[FoltrAuditError]) -> dict[str, JsonValue]:
    """The table of a TOML text.

    Raises:
        FoltrAuditError: of the given kind: it is no TOML, too long, or holds a whole number beyond 64 bits, a
            date, or too many levels.
    """
    if len(text) > MOST_CHARACTERS:
        raise error(f"{where}: more than {MOST_CHARACTERS} characters; expected fewer")
    if _DOTTED.search(text):
        raise error(f"{where}: not TOML: more than {MOST_LEVELS} levels of tables; expected fewer")
    with parsing("TOML", where, error):
        table = tomllib.loads(text)
        refuse_odd(table, finite=False)
    return table
