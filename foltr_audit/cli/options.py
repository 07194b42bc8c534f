"""Options of commands: how they are declared, read, and made from the fields of a Spec."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import typer
from typer.models import OptionInfo

from foltr_audit.errors import UsageError
from foltr_audit.utils.formatting import join_names
from foltr_audit.utils.reading import file_text

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


def refuse_others(ctx: typer.Context, allowed: Collection[str], why: str) -> None:
    """Refuse every given option except some, and --verbose."""
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if name not in (*allowed, "verbose") and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]}: {why}")


def refuse_given(options: Mapping[str, object], why: str) -> None:
    """Refuse the options of these that were given a value."""
    for name, value in options.items():
        if value is not None and value is not False and value != [] and value != ():
            raise UsageError(f"--{name}: {why}")


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for lists of names in the code."""
    return tuple(text.split())


def split_methods(given: list[str] | None) -> list[str] | None:
    """The attacks of --method; one value may name several without parameters, separated by commas."""
    pieces = ([text] if ":" in text else text.split(",") for text in given or ())
    return [name.strip() for names in pieces for name in names] or None


def split_names(given: str | list[str]) -> list[str]:
    """The names in the value or values of an option, each of which may hold several separated by commas."""
    texts = [given] if isinstance(given, str) else given
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def parse_numbers(text: str, option: str) -> list[float]:
    """Parse numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{option}: {text!r}; expected numbers separated by commas") from error


def methods_of(given: list[str] | None) -> list[str] | None:
    """As `split_methods`, with every attack that can be loaded in the place of `all`."""
    given = split_methods(given)
    if not given or "all" not in given:
        return given
    from foltr_audit.core.plugins import Attack
    from foltr_audit.core.plugins.registry import loadable

    names = [name for text in given for name in (loadable(Attack) if text == "all" else [text])]
    return list(dict.fromkeys(names))


def named_or_all(given: list[str]) -> list[str] | None:
    """The names of an option, several of which may be separated by commas; None if `all` is among them."""
    names = split_names(given)
    return None if "all" in names else names


def read_text(path: Path, option: str) -> str:
    """The UTF-8 text of a file that an option names."""
    try:
        return file_text(path, UsageError)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error


def refuse_alternatives(chains: Sequence[str]) -> None:
    """Refuse chains of --defense that only `compare` understands."""
    from foltr_audit.experiments.comparison.alternatives import PROVEN, PUBLISHED

    for name in (part.strip().partition(":")[0] for text in chains for part in text.split("+")):
        if name == PUBLISHED or name.startswith(PROVEN):
            instead = "--eps E" if name == PUBLISHED else "what calibrate --target-eps E prints"
            raise UsageError(
                f"--defense: {name} stands for a chain that compare makes for each epsilon; "
                f"expected {instead}"
            )


def query_ids(text: str) -> list[str]:
    """The query ids of --queries: one on each line of a file of that name, else separated by commas."""
    path = Path(text)
    lines = read_text(path, "--queries").splitlines() if os.path.isfile(text) else text.split(",")
    ids = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not ids:
        raise UsageError(f"--queries: {text!r}: no query id in it; expected ID,... or a file of ids")
    return ids


Table = dict[str, Any]

GRID, DATA, FEDERATION, DEFENSE, OUTPUT = "Grid", "Data", "Federation", "Defense", "Run and output"
"""Parts of the help of a command."""


def option(
    text: str,
    default: Any = None,
    *,
    panel: str | None = None,
    name: str | tuple[str, ...] | None = None,
    metavar: str | None = None,
    least: int | None = None,
) -> Any:
    """Declare an option with its help as the default of a parameter; an ellipsis if it has to be given.

    Without a `name`, or names, it is called as its parameter; a flag without a `--no-` form needs one.
    """
    return OptionInfo(
        default=default,
        param_decls=() if name is None else (name,) if isinstance(name, str) else name,
        help=text,
        rich_help_panel=panel,
        metavar=metavar,
        min=least,
    )


def switch(name: str, text: str, panel: str | None = None) -> Any:
    """Declare an option without a value and without a `--no-` form; its parameter is False by default."""
    return option(text, default=False, name=name, panel=panel)


def drawing(what: str) -> Any:
    """Declare an option for the files that a command draws."""
    return option(f"{what} into a file; needs the extra plot. May be repeated.", metavar="FILE.svg|png|pdf")


def argument(text: str, metavar: str | None = None) -> Any:
    """Declare an argument that has to be given as the default of a parameter."""
    return typer.Argument(..., help=text, metavar=metavar)


def shared(
    text: str,
    panel: str | None = None,
    *,
    default: Any = None,
    name: str | tuple[str, ...] | None = None,
    metavar: str | None = None,
) -> Any:
    """Declare an option as a field of the record of options that several commands share."""
    info = option(text, ..., panel=panel, name=name, metavar=metavar)
    return field(default=default, metadata={"option": info})


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
KNOW_HELP = "A fact in place of one of the trace, as NAME=VALUE, e.g. learning_rate=0.1. May be repeated."
Know = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help=KNOW_HELP)]
Jobs = Annotated[
    int | None, typer.Option(help="Processes that run cells in parallel. Default: one per core.")
]
Backend = Annotated[
    Literal["local", "dask"],
    typer.Option(help="Where cells run: on the cores of this machine, or on a cluster."),
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of the cluster's scheduler. Default: start one on this machine.")
]


_TABLES = {
    "function": "foltr_audit.core.settings.audit:FunctionAuditSpec",
    "grid": "foltr_audit.experiments.comparison.grid:ComparisonGrid",
    "merge": "foltr_audit.studies.model_merging.spec:MergeSpec",
}
"""Tables whose fields have a prefix; the other names are of fields of the Spec."""

_PANELS = {
    "data": DATA,
    "grid": GRID,
    "population": FEDERATION,
    "train": FEDERATION,
    "train.click_model": None,
    "seed": OUTPUT,
    "trace": OUTPUT,
    "trace.message": FEDERATION,
    "trace.dtype": FEDERATION,
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "attack.click_models": list,  # a text may hold commas
    "attack.methods": methods_of,
    "attack.queries": query_ids,
    "grid.attacks": split_methods,
    "grid.defenses": list,
    "grid.scenarios": list,
    "unlearning.methods": named_or_all,
}


class FieldOption(NamedTuple):
    """The option that sets a field.

    Attributes:
        form: `one` value, a `list` of values of several options, or a `text` with several.
    """

    name: str
    parameter: str
    field: FieldInfo
    form: Literal["one", "list", "text"]
    kind: type
    default: str

    @classmethod
    def of(cls, name: str) -> FieldOption:
        """The option of a field with a dotted name, e.g. `attack.methods`."""
        from foltr_audit.core.settings.base import Flag

        field = _field(name)
        flag = next((mark for mark in field.metadata if isinstance(mark, Flag)), Flag())
        kind, is_list = _type(field.annotation)
        form = flag.form or ("list" if is_list else "one")
        default = _words(field.default, form) if flag.default == "" else flag.default
        parameter = (flag.name or name.rpartition(".")[2]).replace("-", "_")
        return cls(name, parameter, field, form, kind, default or "")

    @property
    def flag(self) -> str:
        """The option, e.g. `--click-model`."""
        return f"--{self.parameter.replace('_', '-')}"

    @property
    def annotation(self) -> Any:
        """The type of its parameter, which is None where the option was not given."""
        kind: Any = {"one": self.kind, "list": list[self.kind], "text": str}[self.form]  # type: ignore[name-defined]
        return kind | None

    def option(self, text: str | None = None, panel: str | None = None) -> OptionInfo:
        """The option in the help, with another text or panel than those of the field if they are given."""
        panel = panel or _PANELS.get(self.name, _PANELS.get(self.name.partition(".")[0]))
        if text is None:
            text = self.field.description or ""
            if self.form == "list" and "May be repeated" not in text:
                text += " May be repeated."
            text += f" Default: {self.default}." if self.default else ""
        name = self.flag if self.field.default is False else None
        return cast("OptionInfo", option(text, ..., panel=panel, name=name))

    def read(self, given: Any) -> Any:
        """The value of the field; None if what was given does not set it."""
        if given is None or given == []:
            return None
        if self.name in _READERS:
            return _READERS[self.name](given)
        if self.form == "text":
            return parse_numbers(given, self.flag) if self.kind is float else split_names(given)
        if self.form == "one" or self.kind is not str:
            return given
        return "+".join(given) if get_origin(self.field.annotation) is None else split_names(given)


def _field(name: str) -> FieldInfo:
    prefix, _, rest = name.partition(".")
    module, _, table_name = _TABLES.get(prefix, "foltr_audit.core.settings.experiment:Spec").partition(":")
    table: type[BaseModel] = getattr(import_module(module), table_name)
    *outer, last = (rest if prefix in _TABLES else name).split(".")
    for part in outer:
        table = _type(table.model_fields[part].annotation)[0]
    return table.model_fields[last]


def _type(kind: Any) -> tuple[type, bool]:
    """The type of one value, and whether there are several of it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        return _type(next(part for part in inner if part is not NoneType))
    if origin is tuple:
        return _type(inner[0])[0], True
    return (type(inner[0]) if origin is Literal else kind), False


def _words(value: Any, form: str) -> str:
    if value is None or value is False or value == ():
        return ""
    if value is True:
        return "yes"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) if form == "text" else join_names([*map(str, value)])
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


@cache
def flags(names: Iterable[str]) -> dict[str, str]:
    """The option that sets each of some fields, by the name of the field in its own table."""
    flag_of = {}
    for name in names:
        prefix, _, rest = name.partition(".")
        flag_of[rest if prefix in _TABLES else name] = FieldOption.of(name).flag
    return flag_of
