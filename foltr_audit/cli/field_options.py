"""The option that a field of a Spec means: its name, type, help and default all come from the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from foltr_audit.cli.given import (
    methods_of,
    named_or_all,
    parse_numbers,
    query_ids,
    split_methods,
    split_names,
)
from foltr_audit.cli.options import DATA, FEDERATION, GRID, option

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from typer.models import OptionInfo

_TABLES = {
    "function": "foltr_audit.core.settings.function_audit:FunctionAuditSpec",
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
        name: dotted name of the field.
        parameter: name of the parameter of a command.
        field: the field.
        form: `one` value, a `list` of values of several options, or a `text` with several.
        kind: type of a value.
        default: words for the default.
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
        flag = next((one for one in field.metadata if isinstance(one, Flag)), Flag())
        kind, several = _type(field.annotation)
        form = flag.form or ("list" if several else "one")
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
        table = self.name.partition(".")[0]
        info: OptionInfo = option(
            text or self.text,
            ...,
            panel=panel or _PANELS.get(self.name, _PANELS.get(table)),
            name=self.flag if self.field.default is False else None,
        )
        return info

    @property
    def text(self) -> str:
        """Its help."""
        text = self.field.description or ""
        if self.form == "list" and "May be repeated" not in text:
            text += " May be repeated."
        return f"{text} Default: {self.default}." if self.default else text

    def read(self, given: Any) -> Any:
        """The value of the field; None if what was given does not set it.

        Raises:
            UsageError: it cannot be read.
        """
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
        return _type(next(one for one in inner if one is not NoneType))
    if origin is tuple:
        return _type(inner[0])[0], True
    return (type(inner[0]) if origin is Literal else kind), False


def _words(value: Any, form: str) -> str:
    if value is None or value is False or value == ():
        return ""
    if value is True:
        return "yes"
    if isinstance(value, tuple):
        *most, last = map(str, value)
        return (
            ",".join((*most, last)) if form == "text" else " and ".join([", ".join(most), last][not most :])
        )
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)


@cache
def flags(names: Iterable[str]) -> dict[str, str]:
    """The option that sets each of some fields, by the name of the field in its own table."""
    found = {}
    for name in names:
        prefix, _, rest = name.partition(".")
        found[rest if prefix in _TABLES else name] = FieldOption.of(name).flag
    return found
