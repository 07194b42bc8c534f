"""TOML of untrusted files."""

from __future__ import annotations

import re
import tomllib

from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils.reading.values import MOST_LEVELS, parsing, refuse_odd
from foltr_audit.utils.rows import JsonValue

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
