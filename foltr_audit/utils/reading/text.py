"""Text of untrusted files, up to a bound: JSON as RFC 8259 has it, TOML, and limits on their values."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NoReturn, TypeGuard, TypeVar

from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils.formatting import JsonValue

T = TypeVar("T")

MOST_BYTES = 256 << 20
"""A larger file is not read: the results of some 20,000 cells have this size."""

MOST_LEVELS = 32
"""Lists and tables inside each other; no file of ours has ten."""

MOST_CHARACTERS = 4 << 20
"""A longer TOML text is not parsed: it would take seconds."""

_PIECE_BYTES = 1 << 20
_LEAST_WHOLE, _MOST_WHOLE = -(2**63), 2**64 - 1
_TOO_LARGE = "a whole number beyond 64 bits; expected a smaller one"
_DIGITS = re.compile(r"[0-9]{1,20}")
_HALVES = re.compile(r"[\ud800-\udfff]")

# Possessive repeats (`}+`, `*+`) never backtrack, so a hostile text cannot make this search slow.
_PART = r"""(?:[\w-]{1,99}+|"[^"\n]{0,99}+"|'[^'\n]{0,99}+')"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_LEVELS},}}+")
"""A name of many parts: the parser's time grows with the square of their number."""


def file_bytes(path: Path, error: type[FoltrAuditError], most: int = MOST_BYTES, who: str = "") -> bytes:
    """The content of a file; `who` comes before its path in messages.

    Raises:
        FoltrAuditError: of the given kind: it is missing, cannot be read, or is larger than `most` bytes.
    """
    try:
        # Not by the size on disk: a device or a pipe has none, and a file may grow while it is read.
        with path.open("rb") as stream:
            pieces = iter(lambda: stream.read(_PIECE_BYTES), b"")
            content = b"".join(islice(pieces, most // _PIECE_BYTES + 1))
    except FileNotFoundError:
        raise error(f"{who}{path}: no such file") from None
    except (OSError, ValueError) as problem:  # ValueError: a name that no file can have
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{who}{path}: cannot be read: {reason}") from problem
    if len(content) > most:
        raise error(f"{who}{path}: more than {most} bytes; expected {most} at most")
    return content


def file_text(path: Path, error: type[FoltrAuditError], most: int = MOST_BYTES) -> str:
    """The content of a UTF-8 text file."""
    return decoded(file_bytes(path, error, most), str(path), error)


def decoded(content: bytes, where: str, error: type[FoltrAuditError]) -> str:
    """UTF-8 bytes as text."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{where}: byte {problem.start + 1} is not UTF-8; expected UTF-8 text") from problem


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Whether a value is a whole number between two bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def whole_number(text: str, least: int, most: int) -> int | None:
    """The number that a text of plain decimal digits names, if it lies between two bounds; else None.

    Digits of other scripts (`²`, `٣`), signs, spaces and more than 20 digits are no number here.

    >>> whole_number("12", 1, 99), whole_number("²", 1, 99), whole_number("100", 1, 99)
    (12, None, None)
    """
    return int(text) if _DIGITS.fullmatch(text) and least <= int(text) <= most else None


def json_value(content: bytes | str, where: str, error: type[FoltrAuditError]) -> JsonValue:
    """The value of a JSON text.

    Raises:
        FoltrAuditError: of the given kind: it is no JSON, a table has a key twice, or it holds NaN, an
            infinity, a whole number beyond 64 bits, half of a character or too many levels.
    """
    text = decoded(content, where, error) if isinstance(content, bytes) else content
    return _parsed(_loads_json, text, "JSON", where, error)


def json_table(content: bytes | str, where: str, error: type[FoltrAuditError]) -> dict[str, JsonValue]:
    """The object of a JSON text; a value that is none is an error."""
    value = json_value(content, where, error)
    if not isinstance(value, dict):
        raise error(f"{where}: {_KINDS.get(type(value), 'null')}; expected a JSON object")
    return value


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
    table: dict[str, JsonValue] = _parsed(tomllib.loads, text, "TOML", where, error)
    return table


_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}


def _parsed(loads: Callable[[str], T], text: str, kind: str, where: str, error: type[FoltrAuditError]) -> T:
    """What a parser makes of a text, or one error of one line."""
    try:
        value = loads(text)
        _refuse_odd(value, MOST_LEVELS, finite=kind == "JSON")
    except RecursionError as problem:
        raise error(f"{where}: not {kind}: too many levels of lists and tables; expected fewer") from problem
    except ValueError as problem:
        reason = " ".join(str(problem).split())
        # Python advises on numbers of thousands of digits.
        reason = _TOO_LARGE if "set_int_max_str_digits" in reason else reason
        raise error(f"{where}: not {kind}: {reason}") from problem
    return value


def _loads_json(text: str) -> JsonValue:
    value: JsonValue = json.loads(
        text, object_pairs_hook=_table, parse_int=_whole, parse_constant=_refuse_constant
    )
    return value


def _table(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    # Parsers differ on which of two equal keys counts, so a file with both could mean two things.
    table = dict(pairs)
    if len(table) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"{twice[:40]!a} is given twice; expected each name once")
    return table


def _whole(digits: str) -> int:
    # Checked before `int`, whose time grows faster than the number of digits.
    if len(digits) > len(str(_LEAST_WHOLE)):
        raise ValueError(_TOO_LARGE)
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}; expected finite numbers")


def _refuse_odd(value: object, levels: int, *, finite: bool) -> None:
    """Raise `ValueError` for what no file of ours holds: numbers beyond 64 bits, half of a character, a date.

    `levels`: of lists and tables that there may be; `finite`: whether infinity and NaN are refused.
    """
    if isinstance(value, dict | list):
        if not levels:
            raise ValueError(f"more than {MOST_LEVELS} levels of lists and tables; expected fewer")
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        for one in inner:
            _refuse_odd(one, levels - 1, finite=finite)
    else:
        _refuse_odd_leaf(value, finite=finite)


def _refuse_odd_leaf(value: object, *, finite: bool) -> None:
    if isinstance(value, str):
        # JSON can spell half of a character as an escape. Python keeps it, and fails only when the text is
        # written.
        if _HALVES.search(value):
            raise ValueError(f"text {value[:20]!a} with half of a character; expected valid Unicode")
    elif isinstance(value, float):
        if finite and not math.isfinite(value):
            raise ValueError("a number that is not finite; expected finite numbers")
    elif isinstance(value, int):
        if not _LEAST_WHOLE <= value <= _MOST_WHOLE:
            raise ValueError(_TOO_LARGE)
    elif value is not None:
        raise ValueError(f"a {type(value).__name__}; expected text, numbers, lists and tables")
