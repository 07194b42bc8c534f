"""Checks of a contract, the error that says where a plug-in breaks it, and the checks of every plug-in."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from numpy.random import MT19937, mtrand
from pydantic import ValidationError

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Attack, Defense, Plugin
from foltr_audit.core.plugins.registry import GROUPS, SINGULAR, at_hand, make
from foltr_audit.errors import first_problem

P = TypeVar("P", bound=Plugin)
T = TypeVar("T")


class ContractError(AssertionError):
    """A plug-in, e.g. `defense clip:norm=2`, does not do what every plug-in of its kind must do.

    `failures` holds what was expected and found, by the name of each check that failed; the text has a line
    for each.
    """

    def __init__(self, plugin: str, failures: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{plugin}: {check}: {why}" for check, why in failures.items()))
        self.plugin = plugin
        self.failures = dict(failures)


class ContractBreach(Exception):  # noqa: N818  only `_run` sees it
    """What one check expected and what it found."""


class ContractCheck(NamedTuple):
    """One check of one plug-in, such as `same seed, same bytes`; a run raises `ContractError` if it fails."""

    name: str
    run: Callable[[], None]


Check = Callable[..., None]


class CheckList(dict[str, Check]):
    """Checks of one kind of object by their names; each raises an error if the object fails."""

    def __call__(self, name: str) -> Callable[[Check], Check]:
        return lambda check: self.setdefault(name, check)

    def of(self, subject: object, who: str) -> list[ContractCheck]:
        """The checks of one object; `who` names it in errors."""
        return [ContractCheck(name, partial(_run, who, subject, name, self[name])) for name in self]


class PluginChecks(CheckList, Generic[P]):
    """The checks of a kind of plug-in: those of every plug-in, and its own."""

    def __init__(self, base: type[P]) -> None:
        super().__init__(PLUGIN_CHECKS)
        self.base = base

    def of_plugin(self, given: P | type[P] | str) -> list[ContractCheck]:
        """The checks of a plug-in, each with its name, e.g. for `pytest.mark.parametrize`.

        It need not be registered; a `ContractError` if it cannot be made.
        """
        plugin = _plugin_of(self.base, given)
        named = isinstance(getattr(plugin, "name", None), str)
        return self.of(plugin, f"{SINGULAR[self.base]} {plugin.label if named else type(plugin).__name__}")

    def check(self, given: P | type[P] | str) -> None:
        """Check that a plug-in does what every plug-in of its kind must do, and what it declares.

        Tests of noise have fixed seeds. With other seeds each check would reject a plug-in that does as it
        declares with a probability of at most one in a million.

        Raises:
            ContractError: it does not; the error says which checks failed, and why.
        """
        run_checks(self.of_plugin(given))


def expect(holds: object, expected: str, found: object) -> None:
    if not holds:
        raise ContractBreach(f"expected {expected}; found {found}")


def _plugin_of(base: type[P], given: P | type[P] | str) -> P:
    """A plug-in from an object, from a class whose parameters all have defaults, or from its text."""
    if isinstance(given, str):
        return make(base, given)
    if isinstance(given, base):
        return given
    who = f"{SINGULAR[base]} {getattr(given, 'name', getattr(given, '__name__', repr(given)))}"
    if not (isinstance(given, type) and issubclass(given, base)):
        expected = f"expected a subclass of {base.__name__}, an object of one, or its text"
        raise ContractError(who, {"can be made": f"{expected}; found {given!r}"})
    try:
        return given()
    except ValidationError as error:
        why = f"expected defaults, or an object with its parameters given; found {first_problem(error)}"
        raise ContractError(who, {"can be made": why}) from error


def _run(who: str, subject: object, name: str, check: Check) -> None:
    try:
        with at_hand(_base(subject), type(subject)) if isinstance(subject, Plugin) else nullcontext():
            check(subject)
    except ContractBreach as breach:
        raise ContractError(who, {name: str(breach)}) from None
    except Exception as error:  # a plug-in may raise anything
        why = f"expected no error; found {type(error).__name__}: {error}"
        raise ContractError(who, {name: why}) from error


def run_checks(checks: Iterable[ContractCheck]) -> None:
    """Run all checks of one plug-in; one `ContractError` if one or more of them fail."""
    errors = []
    for check in checks:
        try:
            check.run()
        except ContractError as error:
            errors.append(error)
    if errors:
        failures = {name: why for error in errors for name, why in error.failures.items()}
        raise ContractError(errors[0].plugin, failures) from errors[0]


def same_each_time(answer: Callable[[], T], what: str) -> T:
    """The bytes of an answer; the same each time, on any number of threads, without the global generator."""
    import numba
    from threadpoolctl import threadpool_limits

    threads, state = numba.get_num_threads(), mtrand.get_state(legacy=False)
    mtrand.set_state(dict(MT19937(20_231_123).state))
    lent = repr(mtrand.get_state(legacy=False))
    try:
        first = answer()
        used = lent != repr(mtrand.get_state(legacy=False))
        expect(not used, "randomness from the given streams only", "a use of NumPy's global generator")
        expect(answer() == first, f"the same {what} from the same seed", "another one the second time")
        for count in (1, 2):
            numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
            with threadpool_limits(limits=count):
                expect(answer() == first, f"the same {what} on any number of threads", "another one")
    finally:
        numba.set_num_threads(threads)
        mtrand.set_state(state)
    return first


PLUGIN_CHECKS = CheckList()
"""The checks of every plug-in."""

_NUMBERS = (0.1 + 0.2, 1e-9, 7.0, 1e20, 123456789012345678.0, math.pi * 1e-300)
_MUST_SAY = {Attack: "Sees:", Defense: "Guarantees:"}


def _base(plugin: Plugin) -> type[Plugin]:
    return next(base for base in GROUPS if isinstance(plugin, base))


@PLUGIN_CHECKS("it has a name")
def _named(plugin: Plugin) -> None:
    name = getattr(plugin, "name", None)
    wanted = "a class attribute `name` of letters, digits and hyphens"
    expect(isinstance(name, str) and re.fullmatch(r"[a-z0-9][a-z0-9-]*", name), wanted, repr(name))


@PLUGIN_CHECKS("its text makes it again")
def _text(plugin: Plugin) -> None:
    changed = [plugin]
    for key, old in plugin.model_dump().items():
        for value in _NUMBERS if isinstance(old, float) else ():
            try:
                changed.append(type(plugin)(**{**plugin.model_dump(), key: value}))
            except ValueError:
                continue  # outside the range of this parameter
    for each in changed:
        for text in (each.text, each.label):
            again = make(_base(plugin), text)
            expect(again == each, f"the same plug-in from its text {text}", again.text)
            expect(again.text == each.text, f"the text {each.text} again", again.text)
        if isinstance(each, Defense):
            chain = parse_chain([each.text])
            expect(chain == (each,), f"a chain of one link from {each.text}", f"{len(chain)} links")


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
