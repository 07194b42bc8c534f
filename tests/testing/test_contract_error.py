"""What can be checked, and how failures are told."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import Field

from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.registry import make, names
from foltr_audit.errors import PluginError
from foltr_audit.testing import ContractError, check_attack, check_defense, defense_checks
from foltr_audit.utils.arrays import Floats


class Doubling(Defense):
    """Doubles every number of a model.

    Guarantees: nothing.
    """

    name: ClassVar[str] = "doubling"

    times: int = Field(description="how often")

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return 2.0**self.times * models


class Raising(Doubling):
    """Raises an error.

    Guarantees: nothing.
    """

    name: ClassVar[str] = "raising"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        raise KeyError("no such round")


def test_an_object_is_checked_without_being_registered() -> None:
    assert "doubling" not in names(Defense)
    check_defense(Doubling(times=2))
    with pytest.raises(PluginError, match="unknown defense 'doubling'"):
        make(Defense, "doubling:times=2")


def test_a_class_that_hides_a_registered_one_is_checked_itself() -> None:
    class Clip(Doubling):
        """Doubles.

        Guarantees: nothing.
        """

        name: ClassVar[str] = "clip"

    check_defense(Clip(times=1))
    assert make(Defense, "clip:norm=1").text == "clip:norm=1"


def test_a_class_needs_defaults() -> None:
    with pytest.raises(ContractError, match="defense doubling: can be made: expected defaults, or an object"):
        check_defense(Doubling)


@pytest.mark.parametrize("given", [Doubling(times=1), Doubling, 7])
def test_what_is_of_another_kind_is_refused(given: Any) -> None:
    with pytest.raises(ContractError, match="can be made: expected a subclass of Attack, an object of one"):
        check_attack(given)


def test_every_check_that_fails_has_one_line() -> None:
    with pytest.raises(ContractError) as error:
        check_defense(Raising(times=1))
    lines = str(error.value).splitlines()
    assert len(lines) == len(error.value.failures) > 3
    assert all(line.startswith("defense raising:times=1: ") for line in lines)
    assert any("expected no error; found KeyError: 'no such round'" in line for line in lines)


def test_checks_can_be_run_one_by_one() -> None:
    checks = defense_checks(Raising(times=1))
    assert len({check.name for check in checks}) == len(checks) > 10
    by_name = {check.name: check.run for check in checks}
    by_name["its text makes it again"]()
    with pytest.raises(ContractError, match="same seed, same bytes"):
        by_name["same seed, same bytes"]()
