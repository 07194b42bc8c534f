"""Checks of a contract, and the one error that says where a plug-in breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.plugins import Plugin
from foltr_audit.core.plugins.own_classes import at_hand
from foltr_audit.core.plugins.registry import SINGULAR, make

P = TypeVar("P", bound=Plugin)
T = TypeVar("T")

Surrounding = Callable[[], AbstractContextManager[object]]


class ContractError(AssertionError):
    """A plug-in does not do what every plug-in of its kind must do.

    Its text has one line for each check that failed: the plug-in, the check, what was expected, what was
    found.

    Attributes:
        plugin: kind and text of the plug-in, e.g. `defense clip:norm=2`.
        failures: what was expected and found, by the name of each check that failed.
    """

    def __init__(self, plugin: str, failures: Mapping[str, str]) -> None:
        super().__init__("\n".join(f"{plugin}: {check}: {why}" for check, why in failures.items()))
        self.plugin = plugin
        self.failures = dict(failures)


class ContractBreach(Exception):  # noqa: N818  only `checks_of` sees it
    """What one check expected and what it found."""


class ContractCheck(NamedTuple):
    """One check of one plug-in.

    Attributes:
        name: what it checks, e.g. `same seed, same bytes`.
        run: runs it; raises `ContractError` if the plug-in fails.
    """

    name: str
    run: Callable[[], None]


class NamedCheck(NamedTuple):
    """A check of any plug-in of a kind.

    Attributes:
        name: what it checks.
        function: gets the plug-in; raises `ContractBreach` or any error if the plug-in fails.
    """

    name: str
    function: Callable[..., None]


class CheckList(list[NamedCheck]):
    """The checks of a kind of plug-in, in the order in which they are declared."""

    def __call__(self, name: str) -> Callable[[Callable[[T], None]], Callable[[T], None]]:
        """Declare a function as the check of this name."""

        def declared(function: Callable[[T], None]) -> Callable[[T], None]:
            self.append(NamedCheck(name, function))
            return function

        return declared


def expect(holds: object, expected: str, found: str) -> None:
    """Raise `ContractBreach` unless something holds."""
    if not holds:
        raise ContractBreach(f"expected {expected}; found {found}")


def plugin_of(base: type[P], given: P | type[P] | str) -> P:
    """A plug-in from an object, from a class whose parameters all have defaults, or from its text.

    Raises:
        ContractError: it cannot be made.
    """
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


def checks_of(
    base: type[P],
    given: P | type[P] | str,
    checks: Iterable[NamedCheck],
    around: Surrounding = nullcontext,
) -> list[ContractCheck]:
    """The checks of one plug-in, which need not be registered; `around` is entered for each."""
    plugin = plugin_of(base, given)
    named = isinstance(getattr(plugin, "name", None), str)
    who = f"{SINGULAR[base]} {plugin.label if named else type(plugin).__name__}"

    def entered() -> AbstractContextManager[object]:
        return at_hand(base, type(plugin))

    return [ContractCheck(each.name, partial(_run, who, plugin, each, (entered, around))) for each in checks]


def law_checks_of(law: T, who: str, checks: Iterable[NamedCheck]) -> list[ContractCheck]:
    """The checks of an object that is no plug-in."""
    return [ContractCheck(each.name, partial(_run, who, law, each, ())) for each in checks]


def _run(who: str, subject: object, check: NamedCheck, around: Sequence[Surrounding]) -> None:
    """Run a check; whatever goes wrong becomes a `ContractError`."""
    try:
        with ExitStack() as stack:
            for surrounding in around:
                stack.enter_context(surrounding())
            check.function(subject)
    except ContractBreach as breach:
        raise ContractError(who, {check.name: str(breach)}) from None
    except Exception as error:  # a plug-in may raise anything
        why = f"expected no error; found {type(error).__name__}: {error}"
        raise ContractError(who, {check.name: why}) from error


def run_checks(checks: Iterable[ContractCheck]) -> None:
    """Run all checks of one plug-in.

    Raises:
        ContractError: one or more of them fail.
    """
    errors = []
    for check in checks:
        try:
            check.run()
        except ContractError as error:
            errors.append(error)
    if errors:
        found = {name: why for error in errors for name, why in error.failures.items()}
        raise ContractError(errors[0].plugin, found) from errors[0]
