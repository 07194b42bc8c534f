"""Plain tables as TOML text: what the header of a trace needs, and no more."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence


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
