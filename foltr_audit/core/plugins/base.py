"""The base class of plug-ins: frozen objects with a name, validated parameters and a text form."""

from __future__ import annotations

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
        values = self.model_dump()
        return self._written({key: plain(value) for key, value in values.items() if value is not None})

    @property
    def label(self) -> str:
        """The text form without parameters that have their default value, e.g. `olsr`."""
        given = {
            key: plain(getattr(self, key))
            for key, info in type(self).model_fields.items()
            if getattr(self, key) is not None and (info.is_required() or getattr(self, key) != info.default)
        }
        return self._written(given)

    def _written(self, given: dict[str, str]) -> str:
        cls = type(self)
        name = spec_names.get(cls) or str(getattr(cls, "name", cls.__name__))
        listed = ",".join(f"{key}={given[key]}" for key in sorted(given))
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


_PAIRS: set[tuple[object, object]] = set()
"""Pairs of code and its declaration that one class defines together."""


def refuse_unpaired(cls: type[Plugin], kind: str, hook: str, declared: str, default: object) -> None:
    """Refuse a class of plug-ins whose declaration may not be what its code does.

    The compiled loops do what is declared and skip the code, so a class whose code comes from another class
    than its declaration would not be run at all.

    Args:
        cls: the class.
        kind: what it is, for the error.
        hook: name of the method with the code.
        declared: name of the property that declares what the code does.
        default: that property of the base class, which declares nothing.
    """
    pair = getattr(cls, hook), getattr(cls, declared)
    if hook in vars(cls) and declared in vars(cls):
        _PAIRS.add(pair)
    if pair[1] is not default and pair not in _PAIRS:
        raise PluginError(
            f"{kind} {getattr(cls, 'name', cls.__name__)}: {hook} and {declared} come from different "
            f"classes; expected one class that defines both, since {declared} stands for {hook}"
        )
