"""The base class of plug-ins: frozen objects with a name, validated parameters and a text form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from foltr_audit.errors import PluginError


class Plugin(BaseModel):
    """A frozen object with a name and validated parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    name: ClassVar[str]
    status: ClassVar[Literal["stable", "experimental"]] = "stable"

    @property
    def text(self) -> str:
        """The canonical text form, e.g. `clip:norm=3`."""
        return self._written(type(self).model_fields)

    @property
    def label(self) -> str:
        """The text form without parameters that have their default value, e.g. `olsr`."""
        fields = type(self).model_fields.items()
        return self._written(
            key for key, info in fields if info.is_required() or getattr(self, key) != info.default
        )

    def _written(self, keys: Iterable[str]) -> str:
        cls = type(self)
        name = spec_names.get(cls) or str(getattr(cls, "name", cls.__name__))
        values = {key: getattr(self, key) for key in sorted(keys)}
        listed = ",".join(f"{key}={plain(value)}" for key, value in values.items() if value is not None)
        return f"{name}:{listed}" if listed else name


spec_names: dict[type[Plugin], str] = {}
"""What Specs call classes of the user's own code, see `registry`; others they call by their `name`."""


def plain(value: object) -> str:
    """A parameter value as text that parses to the same value, e.g. `1.2`, `3`, `true`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def refuse_unpaired(cls: type[Plugin], kind: str, hook: str, declared: str, base: type[Plugin]) -> None:
    """Refuse a class of plug-ins whose declaration may not be what its code does.

    The compiled loops do what is declared and skip the code, so a class whose code comes from another class
    than its declaration would not be run at all.

    Args:
        cls: the class, a `kind` of plug-in.
        kind: what errors call it.
        hook: name of the method with the code.
        declared: name of the property that declares what the code does.
        base: the class whose property declares nothing.
    """
    code, declaration = (next(c for c in cls.__mro__ if name in vars(c)) for name in (hook, declared))
    if declaration is not base and code is not declaration:
        raise PluginError(
            f"{kind} {getattr(cls, 'name', cls.__name__)}: {hook} and {declared} come from different "
            f"classes; expected one class that defines both, since {declared} stands for {hook}"
        )
