"""What commands take where nothing is said: strong attacks, one unit, view, delta and number of trials."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from foltr_audit.cli.calibrate import calibrate
from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.recommend import recommend
from foltr_audit.core.settings import defaults
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.evidence.check.limits import SystemLimits as Gate
from foltr_audit.experiments.comparison.grid import ComparisonGrid, GridExpansion
from foltr_audit.experiments.plan import table_in
from foltr_audit.experiments.recommend.recommend import SearchBudget
from foltr_audit.experiments.recommend.space import PrivacyLimits
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.observer_views import without_lists
from tests.fixtures.command import answer

TINY = ("--data", "synthetic:mq2007:60", "--clients", "10", "--rounds", "2", "--click-model", "perfect")


def names(methods: tuple[str, ...]) -> list[str]:
    return [text.partition(":")[0] for text in methods]


@pytest.mark.parametrize(
    ("table", "kind", "expected"),
    [
        ({}, "model", ["olsr", "lad", "map"]),
        ({}, "update", ["olsr", "lad", "map"]),
        ({"interactions": 3}, "model", ["olsr", "lad", "joint-map"]),
        ({"target": "training"}, "model", ["olsr", "lad", "map"]),
        ({"view": "aggregate"}, "model", ["aggregate"]),
        ({}, "es", ["es-first-click"]),
        ({}, "seeded es", ["es-first-click", "es-seed"]),
        ({}, "clicks", ["seen-clicks"]),
    ],
)
def test_the_attacks_that_run_unless_some_are_named(table: dict, kind: str, expected: list[str]) -> None:  # type: ignore[type-arg]
    protocol = AttackSpec.model_validate(table)
    assert protocol.methods is None
    assert names(protocol.methods_on(kind)) == expected
    named = AttackSpec.model_validate({**table, "methods": ["first-position"]})
    assert names(named.methods_on(kind)) == ["first-position"]
    assert names(named.strengthened(kind).methods_on(kind)) == ["first-position", *expected]


def test_a_spec_does_not_hold_a_default() -> None:
    spec = Spec.parse({"attack": {}})
    assert "methods" not in table_in(spec.table(), "attack")
    assert Spec.from_toml(spec.toml) == spec
    assert names(spec.attacks) == ["olsr", "lad", "map"]


def test_attack_runs_the_strong_attacks_and_saves_none(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    done = answer("attack", *TINY, "--save-config", spec)
    assert {row["method"] for row in done["results"] if not row["baseline"]} == {"olsr", "lad", "map"}
    assert "methods" not in tomllib.loads(spec.read_text())["attack"]
    text = ComparisonGrid.from_toml(Spec.parse({"attack": {"methods": ["olsr"]}}).toml, "spec.toml")
    assert names(text.attacks) == ["olsr", "lad", "map"], "compare --config"


def test_an_epsilon_means_one_chain_in_all_commands() -> None:
    eps = (0.5, 2.3, 4.4, 4.5, 10.0)
    plan = CommonOptions(eps=[*eps], fields={"data.source": "synthetic:mq2007:60"}).plan(protocol="attack")
    table = {"runs": 1, "eps": eps, "defenses": ["published"], "click_models": ["perfect"], "audit": False}
    grid = ComparisonGrid.parse({**table, "spec": {"data": {"source": "synthetic:mq2007:60"}}})
    cells = GridExpansion(grid, Runner(), {}).cells()
    compared = {cell.label.eps: cell.spec.defense for cell in cells if cell.label.eps is not None}
    assert [spec.defense for spec in plan.specs] == [compared[each] for each in eps]


def defaults_of(command: Callable[..., None]) -> dict[str, object]:
    options = {name: one.default for name, one in inspect.signature(command).parameters.items()}
    return {name: getattr(option, "default", option) for name, option in options.items()}


def test_one_default_in_all_commands() -> None:
    given = defaults_of(calibrate)
    assert (given["view"], given["delta"]) == (defaults.VIEW, defaults.DELTA)
    found = answer("calibrate --target-eps 1 --parameters 4 --mechanism click-rr")
    assert found["target"]["unit"] == defaults.UNIT
    searched = defaults_of(recommend)
    assert (searched["view"], searched["delta"]) == (defaults.VIEW, defaults.DELTA)
    audit, grid = AuditSpec(), ComparisonGrid.parse({})
    assert audit.units == (defaults.UNIT,)
    assert audit.views[0] == AuditSpec.model_validate(grid.spec["audit"]).views[0] == defaults.VIEW
    assert PrivacyLimits(max_eps=1.0).view == without_lists(Gate.parse({"min_ndcg": 0.1}, "").view)
    assert PrivacyLimits(max_eps=1.0).view == defaults.VIEW
    assert grid.delta == PrivacyLimits(max_eps=1.0).delta == defaults.DELTA
    trials = {AuditSpec.model_validate(grid.spec["audit"]).trials, audit.trials, SearchBudget().trials}
    assert trials == {searched["trials"], defaults.TRIALS} == {defaults.TRIALS}
