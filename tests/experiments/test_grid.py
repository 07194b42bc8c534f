"""Grids: the cells that they make, their TOML, and what they refuse."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.grid import ATTACKS, CellPlan, ComparisonGrid, GridExpansion
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.table import view_of
from tests.fixtures.there import there

STUDY = Runner()
SPEC = {"data": {"source": "synthetic:mq2007:30"}, "population": {"clients": 20}, "train": {"rounds": 2}}


def grid(**fields: Any) -> ComparisonGrid:
    small = {"runs": 2, "eps": [1.2, 4.5], "click_models": ["perfect"], "every_observer": False, "spec": SPEC}
    return ComparisonGrid.parse({**small, **fields})


def cells(made: ComparisonGrid) -> list[CellPlan]:
    return GridExpansion(made, STUDY, {}).cells()


def test_every_point_is_a_cell_once() -> None:
    made = grid(
        defenses=["none", "published", "clip:norm={clip}"],
        click_models=["perfect", "navigational"],
        scenarios=["uniform", "click-skew"],
        audit=False,
    )
    found = cells(made)
    runs, worlds, chains = 2, 2 * 2, 1 + 2 + 2
    assert len(found) == len({cell.spec for cell in found}) == runs * worlds * chains
    specs = [cell.spec for cell in found]
    points = {(s.repetition, s.population.scenario, s.train.click_model, s.defense) for s in specs}
    chosen: set[tuple[str, ...]] = {("none",)}
    for eps, clip in ((1.2, 1.5), (4.5, 2.5)):
        chosen |= {(f"clip:norm={clip:g}", f"gamma-laplace:eps={eps:g},sensitivity={2 * clip:g}")}
        chosen |= {(f"clip:norm={clip:g}",)}
    scenarios = {spec.population.scenario for spec in specs}
    assert all(s.attack and s.attack.click_models == (s.train.click_model,) for s in specs)
    assert points == set(product(range(2), scenarios, ("perfect", "navigational"), chosen))
    assert len(scenarios) == 2


def test_each_chain_is_audited_once_for_what_it_claims() -> None:
    made = grid(defenses=["none", "published", "proven-skellam"], click_models=["perfect", "navigational"])
    audits = [cell for cell in cells(made) if cell.kind == "audit"]
    protocols = [cell.spec.audit for cell in audits]
    assert len(audits) == 1 + 2 + 2
    assert {cell.spec.repetition for cell in audits} == {0}
    claims = [(one.claim, one.delta) for one in protocols if one is not None]
    assert claims == [(None, 1e-5), (None, None), (None, None), (1.2, 1e-5), (4.5, 1e-5)]


def test_runs_go_round_the_folds() -> None:
    made = grid(runs=3, folds=[1, 2])
    found = [made.spec_of("fpdgd", "uniform", "perfect", run, "attack") for run in range(3)]
    assert [(spec.repetition, spec.data.fold) for spec in found] == [(0, 1), (1, 2), (2, 1)]


def test_what_does_not_fit_is_left_out_with_its_reason() -> None:
    made = grid(learners=["fpdgd", "foltr-es"], defenses=["published", "proven-laplace"])
    expansion = GridExpansion(made, STUDY, {})
    found = expansion.cells()
    assert {cell.spec.train.learner.partition(":")[0] for cell in found} == {"fpdgd", "foltr-es"}
    reasons = {(one.learner, one.defense): one.why for one in expansion.left_out}
    assert "models" in reasons["foltr-es", "proven-laplace"]
    assert "an audit needs messages that are models" in reasons["foltr-es", "audit"]
    protocols = {cell.spec.train.learner.partition(":")[0]: cell.spec.attack for cell in found[:6]}
    methods = [one.methods or () for one in protocols.values() if one is not None]
    names = [[text.partition(":")[0] for text in texts] for texts in methods]
    assert names == [["olsr", "lad", "map"], ["es-first-click"]]


def test_clients_of_unequal_weights_are_attacked_and_not_audited() -> None:
    expansion = GridExpansion(grid(scenarios=["quantity-skew"], defenses=["published"]), STUDY, {})
    assert {cell.kind for cell in expansion.cells()} == {"attack"}
    assert ["quantity-skew" in one.why for one in expansion.left_out] == [True]


def test_servers_that_see_lists_or_sums_are_attacked_in_the_first_run() -> None:
    made = grid(defenses=["published"], click_models=["perfect", "navigational"], every_observer=True)
    found = {kind: [cell for cell in cells(made) if cell.kind == kind] for kind in ATTACKS}
    first = [cell for cell in found["attack"] if cell.spec.repetition == 0]
    for kind in ("lists", "sum"):
        assert [cell.label for cell in found[kind]] == [cell.label for cell in first]
        trained = [cell.spec.only_trained for cell in found[kind]]
        assert trained == [cell.spec.only_trained for cell in first]
    protocols = {kind: found[kind][0].spec.attack or AttackSpec() for kind in ATTACKS}
    assert (protocols["lists"].interactions, protocols["lists"].lists) == (2, "sampled")
    assert protocols["sum"].view == "cohort"
    assert [view_of(found[kind][0].spec) for kind in ATTACKS] == [
        "individual",
        "individual+lists",
        "aggregate",
    ]


@pytest.mark.parametrize(
    ("attack", "view"),
    [
        ({"lists": "sampled"}, "individual"),
        ({"interactions": 2, "hide": ["shown"]}, "individual"),
        ({"interactions": 2, "hide": ["order"]}, "individual+lists"),
        ({"target": "training", "view": "client"}, "aggregate+lists"),
        ({"target": "training", "view": "aggregate", "colluders": 3}, "colluding+lists"),
    ],
)
def test_an_attack_is_held_against_the_proof_for_its_server(attack: dict[str, Any], view: str) -> None:
    assert view_of(Spec.parse({**SPEC, "attack": attack})) == view


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"attacks": ["map"]}, {"attack", "lists", "sum"}),
        ({"learners": ["foltr-es"], "defenses": ["none"]}, {"attack"}),
        ({"learners": ["fpdgd:rank_with=global"]}, {"attack", "sum"}),
        ({"spec": {**SPEC, "attack": {"target": "training"}}}, {"attack"}),
        ({"spec": {**SPEC, "attack": {"hide": ["order"]}}}, {"attack"}),
        ({"spec": {**SPEC, "train": {"rounds": 2, "server": "flatten"}}}, {"attack"}),
        ({"defenses": ["correlated-gaussian:sigma=1,bands=2"]}, {"attack", "lists"}),
    ],
)
def test_other_servers_are_attacked_where_they_see_something_else(
    fields: dict[str, Any], kinds: set[str]
) -> None:
    named = {"defenses": ["clip:norm=1"], "audit": False, "every_observer": True, "runs": 1, **fields}
    assert {cell.kind for cell in cells(grid(**named)) if cell.label.alternative != "none"} | {
        "attack"
    } == kinds


def test_what_cannot_be_attacked_is_left_out_for_that_server_alone() -> None:
    data = STUDY.setup(grid().spec_of("fpdgd", "uniform", "perfect", 0, "attack")).collection
    lengths = sorted([*data.vali.lengths.tolist(), *data.test.lengths.tolist()])
    assert lengths[-2] < lengths[-1]
    few = {**SPEC, "attack": {"min_documents": lengths[-1]}}  # one query, and two are asked a message
    expansion = GridExpansion(grid(every_observer=True, audit=False, spec=few), STUDY, {})
    assert "lists" not in {cell.kind for cell in expansion.cells()}
    assert {one.defense for one in expansion.left_out} == {"attack on lists"}


def test_a_grid_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"nothing to run: learner dbgd: .*linear"):
        cells(grid(learners=["dbgd"], spec={**SPEC, "train": {"ranker": "neural:hidden=4"}}))


def test_chosen_sensitivities_are_used_and_a_fixed_one_goes_before() -> None:
    made = grid(defenses=["published"], audit=False, runs=1)
    point = (made.learners[0], "uniform", "perfect", 1.2)
    found = GridExpansion(made, STUDY, {point: 7.0}).cells()
    assert [cell.label.sensitivity for cell in found] == [None, 7.0, 5.0]
    assert "gamma-laplace:eps=1.2,sensitivity=7" in found[1].spec.defense
    given = grid(defenses=["published"], audit=False, sensitivity=2.0)
    fixed = GridExpansion(given, STUDY, {point: 7.0}).cells()
    assert {cell.label.sensitivity for cell in fixed} == {None, 2.0}


@pytest.mark.parametrize(("told", "kinds"), [({}, set(ATTACKS)), ({"hide": ["order"]}, {"attack"})])
def test_the_grid_of_a_spec_attacks_what_each_server_sees(told: dict[str, Any], kinds: set[str]) -> None:
    spec = Spec.parse({**SPEC, "attack": {"click_models": ["perfect"], **told}})
    found = GridExpansion(ComparisonGrid.from_toml(spec.toml, "spec.toml"), STUDY, {}).cells()
    assert {cell.kind for cell in found if cell.kind != "audit"} == kinds


def test_spaces_between_parts_mean_nothing() -> None:
    made = grid(defenses=["published + secure-aggregation", "published+secure-aggregation"])
    assert made.defenses == ("published+secure-aggregation",)


def test_the_grid_of_a_spec_has_that_spec() -> None:
    attack = {"click_models": ["navigational"], "repeats": 2}
    spec = Spec.parse({**SPEC, "seed": 5, "defense": ["clip:norm=2"], "attack": attack})
    found = GridExpansion(ComparisonGrid.from_toml(spec.toml, "spec.toml"), STUDY, {}).cells()
    mine = [cell.spec for cell in found if cell.kind == "attack" and cell.spec.defense == spec.defense]
    differ = {name for name, value in flat(mine[0].table()).items() if value != flat(spec.table()).get(name)}
    assert len(mine) == 1
    assert differ == {"train.click_model", "trace.every", "attack.methods"}
    assert there(mine[0].attack).methods == spec.attacks
