"""The tables as type checkers see them have the fields of the classes, with their types.

The calls with `type: ignore` are errors of mypy: it complains of each comment that it does not need.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import foltr_audit as fa
from foltr_audit.core.settings import attack, audit, data, fields, membership, population, train, unlearning
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.grid import ComparisonGrid

TABLES: dict[type[SpecTable], Any] = {
    data.DataSpec: fields.DataFields,
    population.PopulationSpec: fields.PopulationFields,
    train.TrainSpec: fields.TrainFields,
    train.TraceSpec: fields.TraceFields,
    attack.AttackSpec: fields.AttackFields,
    audit.AuditSpec: fields.AuditFields,
    membership.MembershipSpec: fields.MembershipFields,
    unlearning.UnlearningSpec: fields.UnlearningFields,
    Spec: fields.SpecFields,
    ComparisonGrid: fields.GridFields,
}
PLAIN = (bool, int, float, str, type(None))
MORE: dict[str, set[Any]] = {"missing": {float}, "data": {fa.Collection}}
"""What a field takes beyond what it holds, apart from plug-ins."""


def leaves(hint: Any) -> set[Any]:
    """The literals and plain types in a type, and tables of a Spec by their class."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    if hint in PLAIN or hint is fa.Collection:
        return {hint}
    named = [table for table, kind in TABLES.items() if hint in (table, kind)]
    return set(named) or set().union(*(leaves(each) for each in get_args(hint)))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_fields_and_types_are_those_of_the_class(table: type[SpecTable]) -> None:
    held = {info.alias or name: info.annotation for name, info in table.model_fields.items()}
    given = get_type_hints(TABLES[table])
    assert list(given) == list(held)
    for name in held.keys() - {"spec"}:  # of a comparison, which checks it as a Spec
        assert leaves(given[name]) == leaves(held[name]) | MORE.get(name, set()), name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_help_shows_names_and_defaults_alone(table: type[SpecTable]) -> None:
    shown = inspect.signature(table).parameters
    assert list(shown) == list(get_type_hints(TABLES[table]))
    assert all(each.annotation is inspect.Parameter.empty for each in shown.values())
    for name, info in table.model_fields.items():
        default = shown[info.alias or name].default
        assert default == ({} if info.default_factory else info.default) or info.is_required()


def test_a_wrong_table_is_an_error_of_types_and_at_run_time() -> None:
    with pytest.raises(UsageError, match="did you mean 'train'"):
        fa.Spec(trian={"rounds": 5})  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"train\.rounds"):
        fa.Spec(train={"rounds": "five"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="did you mean 'rounds'"):
        fa.Spec(train={"round": 5})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="normalise"):
        fa.Spec(data={"normalise": "zscores"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="epz"):
        fa.compare({"epz": [1.2]})  # type: ignore[arg-type]


def test_shared_tables_have_a_type() -> None:
    shared: fa.SpecFields = {"data": {"source": "synthetic:mq2007:30"}, "train": {"rounds": 2}}
    assert fa.Spec(**shared).train.rounds == 2
    assert fa.Spec.parse({**shared, "seed": 3}).seed == 3
