"""Values as JSON and as short text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Union

JsonValue = Union[None, bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]"]
"""A value of a JSON document; a float may still be NaN or infinite, see `json_ready`."""

_OBEYED = re.compile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")


def visible(text: str) -> str:
    r"""Text without characters that a terminal obeys (all control characters but `\n`, and directions).

    Files of others, such as traces, may hold them in names.

    >>> visible("name\x1b[31m")
    'name?[31m'
    """
    return _OBEYED.sub("?", text)


def json_ready(value: object) -> object:
    """A value for JSON: NaN becomes null, an infinity the text `inf` or `-inf`."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): json_ready(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(inner) for inner in value]
    return value


def json_text(value: object) -> str:
    """One JSON object, indented, without NaN or Infinity."""
    return json.dumps(json_ready(value), indent=2, allow_nan=False)


def short(value: float | None, digits: int = 3) -> str:
    """A share without its leading zero, e.g. `.894`; `-` where there is none.

    >>> short(0.8941), short(1.0), short(-0.0001), short(None)
    ('.894', '1.000', '.000', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    text = f"{value:z.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def epsilon(value: float) -> str:
    """An epsilon as text: `1.2`, or `none` where nothing is claimed."""
    return "none" if math.isinf(value) else f"{value:g}"


def name_in(text: str) -> str:
    """What a text calls a plug-in, without its parameters.

    >>> name_in("clip:norm=3"), name_in("my_attacks:Trimmed:keep=0.5")
    ('clip', 'my_attacks:Trimmed')
    """
    name, _, rest = (piece.strip() for piece in text.partition(":"))
    inner = rest.partition(":")[0].strip()
    return f"{name}:{inner}" if inner.replace(".", "_").isidentifier() and name else name


def join_names(names: Sequence[str], word: str = "and") -> str:
    """Names with a word before the last one.

    >>> join_names(["olsr", "lad", "map"])
    'olsr, lad and map'
    """
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
