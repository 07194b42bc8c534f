"""Find plug-ins by entry points, and make them from their text form."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlparse

from pydantic import AfterValidator, ValidationError
from pydantic_core import ErrorDetails

from foltr_audit.core.plugins import (
    Attack,
    ClickModel,
    ClientStep,
    Defense,
    Learner,
    Plugin,
    Poisoning,
    Scenario,
    Server,
)
from foltr_audit.errors import PluginError, shorten_value, suggest_name
from foltr_audit.utils.reading import json_table

P = TypeVar("P", bound=Plugin)
_OURS, _PACKAGE = "foltr-audit", "foltr_audit"

GROUPS: dict[type[Plugin], str] = {
    Attack: "foltr_audit.attacks",
    Defense: "foltr_audit.defenses",
    Scenario: "foltr_audit.scenarios",
    ClickModel: "foltr_audit.click_models",
    Learner: "foltr_audit.learners",
    ClientStep: "foltr_audit.client_steps",
    Poisoning: "foltr_audit.poisonings",
    Server: "foltr_audit.servers",
}
SINGULAR = {
    Attack: "attack",
    Defense: "defense",
    Scenario: "scenario",
    ClickModel: "click model",
    Learner: "learner",
    ClientStep: "client step",
    Poisoning: "poisoning",
    Server: "server",
}


_AT_HAND: dict[tuple[type[Plugin], str], type[Plugin]] = {}


@contextmanager
def at_hand(base: type[Plugin], cls: type[Plugin]) -> Iterator[None]:
    """Have a class found under its name inside a `with` block, whatever is registered: for tests of it."""
    place = (base, getattr(cls, "name", ""))
    before = _AT_HAND.get(place)
    _AT_HAND[place] = cls
    try:
        yield
    finally:
        _AT_HAND.pop(place)
        if before is not None:
            _AT_HAND[place] = before


@cache
def _registered(group: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name in found and point.value != found[point.name].value:
            raise PluginError(
                f"plug-ins: {point.name!r} is registered twice: {found[point.name].value} and {point.value}"
            )
        found[point.name] = point
    return found


def names(base: type[Plugin]) -> tuple[str, ...]:
    """Names of all registered plug-ins of a kind, sorted."""
    return tuple(sorted(_registered(GROUPS[base])))


@cache
def unloadable(base: type[Plugin]) -> dict[str, str]:
    """Plug-ins of a kind that cannot be loaded: name and reason, on one line."""
    found = {}
    for name in names(base):
        try:
            plugin_class(base, name)
        except PluginError as error:
            found[name] = " ".join(str(error).split())
    return found


def loadable(base: type[Plugin]) -> tuple[str, ...]:
    """Names of all plug-ins of a kind that can be loaded, sorted: the default where none is named."""
    return tuple(name for name in names(base) if name not in unloadable(base))


def _roots(distribution: Distribution) -> list[Path]:
    """Source folders of an editable distribution (from its `direct_url.json`, PEP 610)."""
    text = distribution.read_text("direct_url.json")
    if not text:
        return []
    record = json_table(text, f"plug-ins: direct_url.json of {distribution.name}", PluginError)
    editable, url = record.get("dir_info"), record.get("url")
    if not (isinstance(editable, dict) and editable.get("editable") and isinstance(url, str)):
        return []
    return [Path(unquote(urlparse(url).path)).resolve()]


def _belongs(origin: Path, distribution: Distribution) -> bool:
    if any(origin.is_relative_to(root) for root in _roots(distribution)):
        return True
    files = distribution.files or []
    return any(Path(str(distribution.locate_file(file))).resolve() == origin for file in files)


def _refuse_shadowed(point: EntryPoint) -> None:
    """Refuse a plug-in whose package or module is shadowed by another distribution.

    Our own plug-ins always come from the running package, even if another copy of it is installed.
    """
    if point.dist is not None and point.dist.name == _OURS and point.module.startswith(f"{_PACKAGE}."):
        return
    for name in (point.module.partition(".")[0], point.module):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or point.dist is None:
            return
        origin = Path(spec.origin).resolve()
        if not _belongs(origin, point.dist):
            raise PluginError(
                f"plug-ins: {name} of {point.dist.name} is shadowed by {origin}; "
                "rename or remove the package that shadows it"
            )


def plugin_class(base: type[P], name: str) -> type[P]:
    """The class registered under a name.

    Raises:
        PluginError: an unknown name (with the nearest known one), a module that cannot be imported or
            that another package shadows, or an object that is not a plug-in of this kind.
    """
    own = _AT_HAND.get((base, name))
    if own is not None and issubclass(own, base):
        return own
    points = _registered(GROUPS[base])
    if name not in points:
        raise PluginError(f"unknown {SINGULAR[base]} {name!r}; {suggest_name(name, points)}")
    return _load(base, points[name])


@cache
def _load(base: type[P], point: EntryPoint) -> type[P]:
    try:
        _refuse_shadowed(point)
        loaded = point.load()
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # a third-party module may raise anything when it is imported
        raise PluginError(f"plug-ins: {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise PluginError(f"plug-ins: {point.value} is no {SINGULAR[base]}")
    if getattr(loaded, "name", None) != point.name:
        raise PluginError(
            f"plug-ins: {point.value} is registered as {point.name!r}, but its class attribute `name` differs"
        )
    return loaded


def make(base: type[P], text: str) -> P:
    """The plug-in that a text `name` or `name:parameter=value,...` describes.

    Raises:
        PluginError: unknown name or parameter (with the nearest known one), or a refused value.
    """
    name, colon, rest = text.strip().partition(":")
    cls = plugin_class(base, name.strip())
    who = f"{SINGULAR[base]} {cls.name}"
    if colon and not rest.strip():
        raise PluginError(f"{who}: no parameter after ':' in {text!r}; expected name=value")
    given: dict[str, str] = {}
    for item in rest.split(",") if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or not key or not value:
            raise PluginError(f"{who}: {item!r} in {text!r}; expected parameter=value")
        if key in given:
            raise PluginError(f"{who}: parameter {key} given twice in {text!r}")
        given[key] = value
    return _validated(cls, who, given)


def make_if_known(base: type[P], text: str) -> P | None:
    """The plug-in that a text describes; None if it is not registered here, as in a report of another lab."""
    try:
        return make(base, text)
    except PluginError:
        return None


def canonical(base: type[Plugin]) -> AfterValidator:
    """A pydantic validator that turns the text of a plug-in into its canonical form."""
    return AfterValidator(lambda text: make(base, text).text)


def remade(plugin: P, changes: Mapping[str, object]) -> P:
    """The same plug-in with some parameters changed.

    Raises:
        PluginError: an unknown parameter or a refused value.
    """
    base = next(kind for kind in GROUPS if isinstance(plugin, kind))
    who = f"{SINGULAR[base]} {plugin.name}"
    return _validated(type(plugin), who, {**plugin.model_dump(), **changes})


def _validated(cls: type[P], who: str, given: Mapping[str, object]) -> P:
    unknown = [key for key in given if key not in cls.model_fields]
    if unknown:
        hint = suggest_name(unknown[0], cls.model_fields)
        raise PluginError(f"{who}: unknown parameter {unknown[0]!r}; {hint}")
    try:
        return cls.model_validate(given)
    except ValidationError as error:
        raise PluginError(f"{who}: {first_problem(error)}") from error


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


def parameters(cls: type[Plugin]) -> list[dict[str, object]]:
    """Parameters of a plug-in: name, type, default (None if required), `required` and description."""
    rows: list[dict[str, object]] = []
    for name, info in cls.model_fields.items():
        kind = getattr(info.annotation, "__name__", str(info.annotation))
        default = None if info.is_required() else info.default
        rows.append(
            {"name": name, "type": kind, "default": default, "required": info.is_required(),
             "description": info.description or ""}
        )  # fmt: skip
    return rows
