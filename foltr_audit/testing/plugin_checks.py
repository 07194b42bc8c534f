"""Checks of every plug-in, whatever its kind: its name, its parameters and their text, its documentation."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Attack, Defense, Plugin
from foltr_audit.core.plugins.registry import GROUPS, make
from foltr_audit.errors import PluginError
from foltr_audit.testing.contract import CheckList, expect

PLUGIN_CHECKS = CheckList()

_NUMBERS = (0.1 + 0.2, 1e-9, 7.0, 1e20, 123456789012345678.0, math.pi * 1e-300)
_MUST_SAY = {Attack: "Sees:", Defense: "Guarantees:"}


def _base(plugin: Plugin) -> type[Plugin]:
    return next(base for base in GROUPS if isinstance(plugin, base))


def _refusal(make_it: Callable[[], object]) -> str | None:
    """The error of a wrong parameter; None where it is accepted."""
    try:
        make_it()
    except PluginError as error:
        return str(error)
    return None


@PLUGIN_CHECKS("it has a name")
def _named(plugin: Plugin) -> None:
    name = getattr(plugin, "name", None)
    wanted = "a class attribute `name` of letters, digits and hyphens"
    expect(isinstance(name, str) and re.fullmatch(r"[a-z0-9][a-z0-9-]*", name), wanted, repr(name))


@PLUGIN_CHECKS("it is frozen")
def _frozen(plugin: Plugin) -> None:
    for key in (*type(plugin).model_fields, "name", "anything"):
        try:
            setattr(plugin, key, 1)
        except (ValueError, AttributeError):
            continue
        expect(False, "an object that cannot be changed", f"its attribute {key} could be set")
    expect(hash(plugin) == hash(plugin.model_copy()), "equal hashes of equal objects", "different ones")


@PLUGIN_CHECKS("unknown parameters are refused")
def _unknown_parameters(plugin: Plugin) -> None:
    said = _refusal(lambda: make(_base(plugin), f"{plugin.name}:no_such_thing=1"))
    wanted = "a PluginError that names the unknown parameter"
    expect(said is not None and "no_such_thing" in said, wanted, repr(said))
    try:
        type(plugin).model_validate({"no_such_thing": 1})
    except ValueError:
        return
    expect(False, "a ValueError for an unknown parameter", "that it was accepted")


@PLUGIN_CHECKS("numbers that are none are refused")
def _no_numbers(plugin: Plugin) -> None:
    values = {key: value for key, value in plugin.model_dump().items() if value is not None}
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for bad in ("nan", "inf", "-inf"):
            text = ",".join(f"{name}={one}" for name, one in {**values, key: bad}.items())
            said = _refusal(lambda text=text: make(_base(plugin), f"{plugin.name}:{text}"))  # type: ignore[misc]
            wanted = f"a PluginError that says {key}={bad}"
            expect(said is not None and f"{plugin.name}: {key}={bad}" in said, wanted, repr(said))


@PLUGIN_CHECKS("its text makes it again")
def _text(plugin: Plugin) -> None:
    base = _base(plugin)
    for text in (plugin.text, plugin.label):
        again = make(base, text)
        expect(again == plugin, f"the same plug-in from its text {text}", again.text)
        expect(again.text == plugin.text, f"the text {plugin.text} again", again.text)


@PLUGIN_CHECKS("its text makes it again with any number")
def _text_of_numbers(plugin: Plugin) -> None:
    base = _base(plugin)
    for key, old in plugin.model_dump().items():
        for value in _NUMBERS if isinstance(old, float) else ():
            try:
                changed = type(plugin)(**{**plugin.model_dump(), key: value})
            except ValueError:
                continue  # outside the range of this parameter
            again = make(base, changed.text)
            expect(again == changed, f"the same plug-in from its text {changed.text}", again.text)
            if isinstance(changed, Defense):
                chain = parse_chain([changed.text])
                expect(chain == (changed,), f"a chain of one link from {changed.text}", f"{len(chain)} links")


@PLUGIN_CHECKS("it says what it is")
def _documented(plugin: Plugin) -> None:
    cls = type(plugin)
    text = inspect.getdoc(cls) or ""
    expect(cls.__doc__, "a docstring of its own", "none")
    first = text.split("\n")[0].strip()
    expect(first.endswith("."), "a docstring whose first line is a sentence", repr(first))
    must = next((words for base, words in _MUST_SAY.items() if isinstance(plugin, base)), "")
    expect(must in text, f"a docstring with a part {must!r}", repr(first))
    for key, info in cls.model_fields.items():
        expect(info.description, f"a description of parameter {key}, for `foltr-audit list`", "none")
