"""Find plug-ins by entry points or in the own code of a user, and make them from their text form."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlparse

from pydantic import ValidationError

from foltr_audit.core.plugins import (
    Attack,
    ClickModel,
    ClientStep,
    Defense,
    Learner,
    Poisoning,
    Scenario,
    Server,
)
from foltr_audit.core.plugins.base import Plugin, spec_names
from foltr_audit.errors import PluginError, first_problem, message_of, suggest_name
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.utils.formatting import name_in
from foltr_audit.utils.reading import json_table

# A class of a module is `MODULE:CLASS` in a Spec, e.g. `my_attacks:Trimmed:keep=0.5`. A class that only this
# process has, of a notebook, a script or a function, is its bare name: such a Spec can run here, but nothing
# that outlives the process or runs in another one may hold it.
#
# A text imports nothing: it may come from a file. A class is known once the user gives it, in Python as a
# class or an object, on the command line as `MODULE:CLASS`.

NOT_SAVED = "what is saved could not be read again; expected no folder, or a class of a module"
"""Why a class that only this process has cannot be part of what is saved."""

_known: dict[tuple[type[Plugin], str], type[Plugin]] = {}


@contextmanager
def at_hand(base: type[Plugin], cls: type[Plugin]) -> Iterator[None]:
    """Have a class found under its `name` inside a `with` block, whatever is registered: for tests of it."""
    place = (base, getattr(cls, "name", ""))
    before = _known.get(place)
    _known[place] = cls
    try:
        yield
    finally:
        _known.pop(place)
        if before is not None:
            _known[place] = before


def own_class(base: type[Plugin], name: str) -> type[Plugin] | None:
    """The user's class that Specs call `name`; None if none was given."""
    return _known.get((base, name))


def is_importable(cls: type) -> bool:
    """Whether another process finds a class by its module and name."""
    found: object = sys.modules.get(cls.__module__)
    if cls.__module__ == "__main__" or found is None:
        return False
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not None and getattr(found, "__qualname__", None) == cls.__qualname__


def import_class(reference: str) -> type[Plugin]:
    """Import a class that the user names as `MODULE:CLASS`, which runs the module."""
    module, _, name = reference.partition(":")
    try:
        found: object = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever the module raises is for its author
        raise PluginError(f"{reference}: importing {module} failed: {message_of(error)}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        what = "has no such class" if found is None else "has it, but it is no plug-in"
        raise PluginError(
            f"{reference}: {module} {what}; expected a subclass of a class of foltr_audit.plugins"
        )
    return found


def _called_in(table: object) -> set[str]:
    """What the texts of a plain table may call plug-ins."""
    if isinstance(table, str):
        return {name_in(part) for part in parts(table)}
    inner = table.values() if isinstance(table, Mapping) else table if isinstance(table, list | tuple) else ()
    return {name for each in inner for name in _called_in(each)}


def foreign_modules(table: object) -> set[str]:
    """The modules of the plug-ins that the texts of a plain table name, without ours."""
    called = _called_in(table)
    known = {cls.__module__ for (_, name), cls in _known.items() if name in called}
    registered = [point for group in GROUPS.values() for point in _registered(group).values()]
    known |= {point.module for point in registered if point.name in called}
    return {module for module in known if module.partition(".")[0] != _PACKAGE}


def refuse_fleeting(table: object, why: str) -> None:
    """Refuse a table that names a class which only this process has.

    `why`: who could not find the class again, for the message.
    """
    called = _called_in(table)
    for (_, name), cls in _known.items():
        if name in called and cls in spec_names and not is_importable(cls):
            where = "a function" if "<locals>" in cls.__qualname__ else cls.__module__
            raise PluginError(f"{name} is a class of {where}: {why}")


def importable_names() -> tuple[str, ...]:
    """The classes of this process that another one can import, as `import_class` takes them."""
    return tuple(name for (_, name), cls in _known.items() if ":" in name and is_importable(cls))


P = TypeVar("P", bound=Plugin)
_OURS, _PACKAGE = "foltr-audit", "foltr_audit"

Attacks = str | Attack | type[Attack] | Sequence[str | Attack | type[Attack]]
Clicks = str | ClickModel | type[ClickModel] | Sequence[str | ClickModel | type[ClickModel]]
Chain = str | Defense | type[Defense] | Sequence[str | Defense | type[Defense] | Sequence[Defense]]
"""Plug-ins as functions of the Python API take them: one or several texts, objects or classes."""

SINGULAR: dict[type[Plugin], str] = {
    Attack: "attack",
    Defense: "defense",
    Scenario: "scenario",
    ClickModel: "click model",
    Learner: "learner",
    ClientStep: "client step",
    Poisoning: "poisoning",
    Server: "server",
}
GROUPS = {base: f"foltr_audit.{name.replace(' ', '_')}s" for base, name in SINGULAR.items()}
"""The group of the entry points of each kind."""


@cache
def _installed() -> dict[str, EntryPoints]:
    """The entry points of all packages by group; finding them reads a file of each package."""
    every = entry_points()
    return {group: every.select(group=group) for group in GROUPS.values()}


@cache
def _registered(group: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in _installed()[group]:
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


def baselines() -> tuple[str, ...]:
    """The registered baselines, which every attack is compared with."""
    return tuple(name for name in loadable(Attack) if plugin_class(Attack, name).baseline)


def _belongs(origin: Path, distribution: Distribution) -> bool:
    """Whether a file is one of a distribution, or of its sources if it is editable (PEP 610)."""
    if text := distribution.read_text("direct_url.json"):
        record = json_table(text, f"plug-ins: direct_url.json of {distribution.name}", PluginError)
        editable, url = record.get("dir_info"), record.get("url")
        sources = Path(unquote(urlparse(str(url)).path)).resolve()
        if isinstance(editable, dict) and editable.get("editable") and origin.is_relative_to(sources):
            return True
    files = distribution.files or []
    return any(Path(str(distribution.locate_file(file))).resolve() == origin for file in files)


@cache
def _name(distribution: Distribution) -> str:
    """Its name, from a file that takes long to read: it holds a whole README."""
    return distribution.name


def _refuse_shadowed(point: EntryPoint) -> None:
    """Refuse a plug-in whose package or module is shadowed by another distribution.

    Our own plug-ins always come from the running package, even if another copy of it is installed.
    """
    if point.dist is None or (point.module.startswith(f"{_PACKAGE}.") and _name(point.dist) == _OURS):
        return
    for name in (point.module.partition(".")[0], point.module):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
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
    own = own_class(base, name)
    if own is not None and issubclass(own, base):
        return own
    points = _registered(GROUPS[base])
    if name not in points:
        if ":" in name:
            raise PluginError(
                f"unknown {SINGULAR[base]} {name!r}: a text imports nothing, since it may come from a file; "
                f"expected the class itself in Python, or --plugin {name} on the command line"
            )
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

    The name of a class that no entry point registers is `MODULE:CLASS`, see above.

    Raises:
        PluginError: unknown name or parameter (with the nearest known one), or a refused value.
    """
    name = called(base, text)
    _, *given_after = text.strip().split(":", name.count(":") + 1)[name.count(":") :]
    colon, rest = bool(given_after), "".join(given_after)
    cls = plugin_class(base, name)
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


def made_of(base: type[P], name: str, **parameters: object) -> P:
    """The registered plug-in of a name with these parameters; errors as for `make`."""
    return _validated(plugin_class(base, name), f"{SINGULAR[base]} {name}", parameters)


def called(base: type[Plugin], text: str) -> str:
    """What a text calls the plug-in of a kind that it describes: a registered name, or `MODULE:CLASS`."""
    name = name_in(text)
    first = name.partition(":")[0]
    return first if own_class(base, name) is None and first in _registered(GROUPS[base]) else name


def kind_of(plugin: Plugin | type[Plugin]) -> type[Plugin]:
    """The kind of a plug-in or its class."""
    cls = plugin if isinstance(plugin, type) else type(plugin)
    found = next((kind for kind in GROUPS if issubclass(cls, kind)), None)
    if found is None:
        raise PluginError(f"{cls.__name__}: expected a plug-in, such as a subclass of Attack or Defense")
    return found


def use_plugin(cls: type[Plugin]) -> str:
    """Have texts find a class of the user's own code, and return what Specs call it.

    A class that is registered keeps its registered name.

    Raises:
        PluginError: it is no plug-in, or has the name of a registered one.
    """
    base, name = kind_of(cls), getattr(cls, "name", "")
    if own_class(base, name) is cls:
        return name
    points = _registered(GROUPS[base])
    if name in points and points[name].value == f"{cls.__module__}:{cls.__qualname__}":
        return name
    if not is_importable(cls) and cls.__name__ in points:
        raise PluginError(
            f"{cls.__name__}: a registered {SINGULAR[base]} has this name; expected another one"
        )
    # A class that is defined once more, as in a notebook, takes the place of the former one.
    called = f"{cls.__module__}:{cls.__qualname__}" if is_importable(cls) else cls.__name__
    if "name" not in vars(cls):
        cls.name = cls.__name__
    spec_names[cls] = called
    _known[base, called] = cls
    return called


def text_of(base: type[Plugin], value: object) -> object:
    """What Specs hold for a plug-in that is given as an object or a class; any other value as it is.

    Raises:
        PluginError: it is of another kind, or a parameter has no text that gives the same value.
    """
    if isinstance(value, type) and issubclass(value, Plugin):
        use_plugin(value)
        value = _validated(value, value.__name__, {})
    if not isinstance(value, Plugin):
        return value
    if not isinstance(value, base):
        kind = SINGULAR[kind_of(value)]
        raise PluginError(f"{type(value).__name__} is a plug-in of kind {kind}; expected {SINGULAR[base]}")
    use_plugin(type(value))
    try:
        same = make(base, value.text) == value
    except PluginError:
        same = False
    if not same:
        raise PluginError(
            f"{value.text}: a Spec holds plug-ins as text, and this text does not give the same parameters; "
            "expected numbers, truth values and texts without , : + ="
        )
    return value.text


def texts_of(base: type[Plugin], value: object) -> tuple[str, ...]:
    """What Specs hold for plug-ins of a kind: one or several texts, objects or classes."""
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return tuple(make(base, str(text_of(base, one))).text for one in several)


def make_if_known(base: type[P], text: str) -> P | None:
    """The plug-in that a text describes; None if it is not registered here, as in a report of another lab."""
    try:
        return make(base, text)
    except PluginError:
        return None


def remade(plugin: P, changes: Mapping[str, object]) -> P:
    """The same plug-in with some parameters changed."""
    who = f"{SINGULAR[kind_of(plugin)]} {plugin.name}"
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


def parameters(cls: type[Plugin]) -> list[dict[str, bool | int | float | str | None]]:
    """Parameters of a plug-in: name, type, default (None if required), `required` and description."""
    rows: list[dict[str, bool | int | float | str | None]] = []
    for name, info in cls.model_fields.items():
        needed, default = info.is_required(), info.default
        plain = default if default is None or isinstance(default, bool | int | float | str) else str(default)
        rows.append(
            {
                "name": name,
                "type": getattr(info.annotation, "__name__", str(info.annotation)),
                "default": None if needed else plain,
                "required": needed,
                "description": info.description or "",
            }
        )
    return rows
