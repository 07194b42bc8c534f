"""JSON as RFC 8259 has it, of untrusted files."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn

from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils.reading.bounded_files import decoded
from foltr_audit.utils.reading.values import InvalidValueError, parsing, refuse_odd
from foltr_audit.utils.rows import JsonValue


def json_value(content: bytes | str, where: str, error: type[FoltrAuditError]) -> JsonValue:
    """The value of a JSON text.

    Args:
        content: the text, or its UTF-8 bytes.
        where: names the text in messages.
        error: what to raise.

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
    """The object of a JSON text.

    Raises:
        FoltrAuditError: of the given kind: as `json_value`, or it is no object.
    """
    value = json_value(content, where, error)
    if not isinstance(value, dict):
        raise error(f"{where}: {_KINDS[type(value)]}; expected a JSON object")
    return value


_KINDS = {
    list: "a list",
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
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
        raise InvalidValueError("a whole number beyond 64 bits; expected a smaller one")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidValueError(f"{name}; expected finite numbers")
