"""Records of options: each option is declared once, with its help and the Spec field that it sets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.models import OptionInfo

Table = dict[str, Any]


def option(
    text: str,
    sets: str = "",
    panel: str | None = None,
    *,
    name: str | None = None,
    read: Callable[[Any], Any] | None = None,
    default: Any = None,
) -> Any:
    """Declare an option as a field of an `OptionRecord`.

    Args:
        text: its help.
        sets: the Spec field that it sets, by dotted name; empty if it sets none or several.
        panel: the part of the help that shows it.
        name: its name; None for the name of the field. A flag without a `--no-` form needs one.
        read: computes the value of the Spec field from the value given; None to take it as it is. Where it
            returns None, the option does not set the field.
        default: the value if the option is not given.
    """
    declared = OptionInfo(
        default=..., param_decls=() if name is None else (name,), help=text, rich_help_panel=panel
    )
    return field(default=default, metadata={"option": declared, "sets": sets, "read": read})


@dataclass(frozen=True, kw_only=True)
class OptionRecord:
    """Options as given; None where an option was not given. `takes_options` adds them to a command."""

    @classmethod
    def flags(cls, prefix: str = "") -> dict[str, str]:
        """The name of each option, e.g. `--seed`, by the rest of the Spec field with this prefix."""
        return {
            each.metadata["sets"].removeprefix(prefix): f"--{each.name.replace('_', '-')}"
            for each in fields(cls)
            if each.metadata["sets"] and each.metadata["sets"].startswith(prefix)
        }

    def point(self) -> Table:
        """The Spec fields that the given options set, by dotted name."""
        found = {}
        for each in fields(self):
            sets, read, given = each.metadata["sets"], each.metadata["read"], getattr(self, each.name)
            if sets and given is not None and given != []:
                found[sets] = given if read is None else read(given)
        return {name: value for name, value in found.items() if value is not None}


def takes_options(
    command: Callable[..., None], without: Collection[str] = (), only: Collection[str] | None = None
) -> Callable[..., None]:
    """A command that takes the options of records in the place of its parameters of a record's type.

    An option that the command or an earlier record declares under the same name is not added, nor one that
    `without` names or that `only` does not name: the record has its default.

    Typer reads the options of a command from its signature and has no records of options, so the signature
    is rewritten here, and only here.
    """
    signature = inspect.signature(command, eval_str=True)
    records: dict[str, type[OptionRecord]] = {}
    parameters: dict[str, inspect.Parameter] = {}
    for parameter in signature.parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, OptionRecord):
            records[parameter.name] = kind
        else:
            parameters[parameter.name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    added: dict[str, list[str]] = {}
    for record, kind in records.items():
        taken, hints = {*without, *parameters}, get_type_hints(kind)
        added[record] = []
        for each in fields(kind):
            if each.name not in taken and (only is None or each.name in only):
                added[record].append(each.name)
                parameters[each.name] = inspect.Parameter(
                    each.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=each.default,
                    annotation=Annotated[hints[each.name], each.metadata["option"]],
                )

    @wraps(command)
    def with_records(**given: Any) -> None:
        made = {
            record: kind(**{name: given.pop(name) for name in added[record]})
            for record, kind in records.items()
        }
        command(**made, **given)

    vars(with_records)["__signature__"] = signature.replace(parameters=list(parameters.values()))
    with_records.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return with_records


def split_names(given: str | list[str] | None) -> list[str] | None:
    """The names in the value or values of an option, each of which may hold several separated by commas."""
    if given is None:
        return None
    texts = [given] if isinstance(given, str) else given
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads. Results do not depend on it.")]
Jobs = Annotated[
    int | None, typer.Option(help="Processes that run cells in parallel. Default: one per core.")
]
Backend = Annotated[
    Literal["local", "dask", "ray"],
    typer.Option(help="Where cells run: on the cores of this machine, or on a cluster."),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of the cluster's scheduler. Default: start one on this machine.")
]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.svg|png|pdf", help="Draw the learning curves into a file. May be repeated."),
]
