"""Every error that foltr-audit raises on purpose, with the exit code it ends a command with.

FoltrAuditError (1)
├── UsageError (2)          an option, a Spec or an argument with an invalid value
│   └── PluginError (2)     a plug-in that is unknown, shadowed or wrongly parameterised, or that fails
├── DataError (2)           a data set that cannot be read as what it claims to be
├── TraceError (3)          a trace or Run folder that is damaged, newer, or of something else
└── ContradictionError (70) a proof and an audit that cannot both be right: a fault of ours, or of a plug-in

A message is one line: the place (file, line or option), the value, and what was expected. It has at most 500
characters, none of which a terminal obeys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class FoltrAuditError(Exception):
    """The root of the tree; a command that fails ends with `exit_code`."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(as_message(message))


class UsageError(FoltrAuditError):
    """An option, Spec field or argument has an invalid value."""

    exit_code: ClassVar[int] = 2


class PluginError(UsageError):
    """A plug-in is unknown, shadowed by another package, has invalid parameters, or raised an exception."""


class DataError(FoltrAuditError):
    """A data set is missing, malformed, or does not fit the rest of the experiment."""

    exit_code: ClassVar[int] = 2


class TraceError(FoltrAuditError):
    """A trace is damaged, of a newer schema, or belongs to something else."""

    exit_code: ClassVar[int] = 3


class ContradictionError(FoltrAuditError):
    """A proof and the result of an audit contradict each other."""

    exit_code: ClassVar[int] = 70


_MOST = 500  # characters of a message


def as_message(text: str) -> str:
    """A text on one line, without its middle if it is long; letters that cannot be printed become `?`."""
    shortened = text if len(text) <= _MOST else f"{text[: _MOST - 200]} ... {text[-195:]}"
    return "".join(one if one.isprintable() else " " if one == "\n" else "?" for one in shortened)


def shorten_value(value: object, most: int = 80) -> str:
    """A foreign value for a message, cut to `most` characters.

    >>> shorten_value(1.5), shorten_value("x" * 100, 5)
    ('1.5', 'xxxxx...')
    """
    try:
        text = str(value)
    except ValueError:  # Python refuses to convert integers of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= most else f"{text[:most]}..."


def message_of(error: BaseException) -> str:
    """The message of a foreign exception on one line, cut to 300 characters; `no message` without one."""
    return shorten_value(" ".join(str(error).split()), 300) or "no message"


_CLOSE = 0.9  # above this a name is misspelt; below it, a name that the text begins with is likelier meant


def _is_start(name: str, longer: str) -> bool:
    """Whether a text starts with a name, followed by another word."""
    return bool(name) and longer.startswith(name) and not longer[len(name) : len(name) + 1].isalnum()


def suggest_name(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """End of a message about an unknown name: the nearest known name, and all of them.

    >>> suggest_name("olrs", ["olsr", "max-gain"])
    "did you mean 'olsr'? (known: max-gain, olsr)"
    >>> suggest_name("pham-2022-table-4", ["pham-2022", "zhuang-2021-table-6"]).partition(" (")[0]
    "did you mean 'pham-2022'?"
    """
    names = sorted(known)
    near, listed = nearest_name(name, names, cutoff), ", ".join(names) or "none"
    return f"known: {listed}" if near is None else f"did you mean {near!r}? (known: {listed})"


def nearest_name(name: str, names: Sequence[str], cutoff: float = 0.5) -> str | None:
    """The known name that is most likely meant; None if none is as like it as `cutoff`, from 0 to 1."""
    near = get_close_matches(name, names, n=1, cutoff=_CLOSE)
    near = near or sorted((one for one in names if _is_start(one, name)), key=len)[-1:]
    near = near or get_close_matches(name, names, n=1, cutoff=cutoff)
    return near[0] if near else None


# --- errors of pydantic ----------------------------------------------------------------------------


def first_problem(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """The first error of pydantic as one short line that names the field and the value.

    `names` maps fields to other names, e.g. the options that set them.
    """
    details: ErrorDetails = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in details["loc"] if not isinstance(part, int))
    where = (names or {}).get(where, where)
    message = details["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if details["type"] == "missing":
        return f"{where} is missing"
    if not where:
        return message
    if details["type"] == "value_error":
        return f"{where}: {message}"
    return f"{where}={shorten_value(details['input'])}: {message}"
