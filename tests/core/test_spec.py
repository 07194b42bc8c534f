"""The Spec: one canonical form, a hash that moves with every field, one clear line for what is wrong."""

from __future__ import annotations

import hashlib
import tomllib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

import foltr_audit as fa
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.experiment import Spec, first_difference
from foltr_audit.core.settings.population import PopulationSpec
from foltr_audit.errors import UsageError
from tests.fixtures.spec_tables import FULL, OTHER, SPEC_TABLES

CANONICAL = """\
schema = "foltr-audit/spec/1"
seed = 1
repetition = 0
defense = [
    "clip:norm=1.5",
    "gamma-laplace:eps=1.2,sensitivity=3",
]

[data]
source = "synthetic:mq2007"
fold = 0
normalise = "zscore"
dtype = "float32"
document_order = "content"

[population]
scenario = "uniform"
clients = 1000

[train]
learner = "fpdgd:clip_without_pairs=true,interactions=4,learning_rate=0.1,\
normaliser=shown,pairs=all"
ranker = "linear"
rounds = 20
click_model = "perfect"
no_relevant = "zero"
evaluate_every = 1

[trace]
message = "model"
dtype = "float32"
embed_features = false
every = 1

[attack]
methods = [
    "olsr",
]
click_models = [
    "perfect",
    "navigational",
    "informational",
]
target = "fresh"
on = [
    "vali",
    "test",
]
repeats = 1
min_documents = 10
interactions = 1
view = "individual"
choices = 10
hide = []
queries = []
"""

ONE_VALUE = {"schema", "population.scenario"}
"""Fields that have only one value as yet."""


def dotted(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every leaf of a table by its dotted name."""
    leaves: dict[str, Any] = {}
    for name, value in table.items():
        leaves |= dotted(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return leaves


def having(name: str, value: Any) -> dict[str, Any]:
    """The full table with one field changed."""
    table = deepcopy(FULL)
    *path, last = name.split(".")
    inner = table
    for step in path:
        inner = inner[step]
    inner[last] = value
    return table


# --- the canonical form ---------------------------------------------------------------------------


def test_the_canonical_form_spells_everything_out() -> None:
    spec = Spec(
        defense=("clip:norm=1.50 + gamma-laplace:sensitivity=3.0,eps=1.2",),
        attack={"methods": ("olsr", " olsr "), "on": ("vali", "test", "vali")},
    )
    assert spec.toml == CANONICAL
    assert spec.hash == hashlib.sha256(CANONICAL.encode()).hexdigest()
    assert Spec.from_toml(CANONICAL) == spec


def test_the_table_of_other_values_knows_every_field() -> None:
    every = set(dotted(Spec.parse(FULL).table()))
    assert every == set(dotted(FULL)) == set(OTHER) | ONE_VALUE, "a new field belongs into FULL and OTHER"


@pytest.mark.parametrize("name", OTHER)
def test_every_field_changes_the_hash(name: str) -> None:
    spec, other = Spec.parse(FULL), Spec.parse(having(name, OTHER[name]))
    assert spec != other
    assert spec.hash != other.hash
    assert Spec.from_toml(other.toml) == other
    difference = first_difference(spec, other)
    assert difference is not None
    assert difference.startswith(f"{name} is ")


def test_ways_to_write_the_same_spec() -> None:
    spec = Spec.parse(FULL)
    assert Spec.parse({**FULL, "defense": [" clip:norm=2.0 ", "none"]}).hash == spec.hash
    assert Spec.parse(having("train.learner", "fpdgd:learning_rate=.1")).hash == spec.hash
    assert Spec.parse(having("attack.methods", ["olsr", " olsr "])).hash == spec.hash
    assert Spec.parse({}) == Spec() == Spec.parse({"data": {}, "population": {}, "train": {}, "trace": {}})
    assert Spec().attack is None
    assert Spec.parse({"attack": {}}).attack == AttackSpec()


@given(SPEC_TABLES)
def test_any_spec_comes_back_from_its_toml(table: dict[str, Any]) -> None:
    spec = Spec.parse(table)
    again = Spec.from_toml(spec.toml)
    assert again == spec
    assert again.toml == spec.toml
    assert hash(again) == hash(spec)
    assert first_difference(spec, again) is None
    assert tomllib.loads(spec.toml) == spec.table()


def test_first_difference_names_one_field_with_both_values() -> None:
    spec = Spec.parse(FULL)
    assert first_difference(spec, spec) is None
    other = Spec.parse(having("population.separation", None))
    assert first_difference(spec, other) == "population.separation is 2 there and None here"
    assert first_difference(other, spec) == "population.separation is None there and 2 here"
    without = Spec.parse({name: value for name, value in FULL.items() if name != "attack"})
    assert str(first_difference(without, spec)).startswith("attack.methods is None there and [")
    one, two = Spec(seed=1, repetition=1), Spec(seed=2, repetition=2)
    assert first_difference(one, two) == "seed is 1 there and 2 here"


def test_the_undefended_twin() -> None:
    spec = Spec.parse(FULL)
    twin = spec.undefended
    assert (twin.defense, twin.attack) == (("none",), None)
    assert Spec.from_toml(twin.toml) == twin
    assert twin.undefended == twin
    assert Spec.parse({**FULL, "defense": ["none"], "attack": None, "audit": None}) == twin


def test_a_spec_is_frozen() -> None:
    spec = Spec.parse(FULL)
    fields = ((spec, "seed"), (spec.data, "fold"), (spec.train, "rounds"), (spec.attack, "repeats"))
    for owner, name in fields:
        with pytest.raises(ValidationError):
            setattr(owner, name, 1)
    assert len({spec, Spec.parse(FULL), Spec.from_toml(spec.toml)}) == 1


def test_cohort_sizes() -> None:
    assert PopulationSpec(clients=9).cohort_size == 9
    assert PopulationSpec(clients=9, cohort=4).cohort_size == 4
    assert PopulationSpec(clients=9, cohort=9).cohort_size == 9


def test_a_separation_of_one_round_is_none() -> None:
    assert PopulationSpec(clients=9, separation=1) == PopulationSpec(clients=9)
    assert PopulationSpec(clients=9).rounds_apart == 1
    assert PopulationSpec(clients=9, cohort=3, separation=3).rounds_apart == 3
    assert DataSpec().source == "synthetic:mq2007"


def test_one_way_to_write_intents() -> None:
    plain = Spec(data={"balance": True, "intents": None})
    assert plain == Spec()
    assert "intents" not in plain.toml
    assert "balance" not in plain.toml
    four = Spec(data={"intents": "synthetic"})
    assert four.data.intents == "synthetic:4"
    assert four.hash == Spec(data={"intents": "synthetic:04"}).hash != plain.hash
    assert Spec(data={"intents": "./synthetic"}).data.intents == "./synthetic"
    assert Spec.from_toml(Spec(data={"balance": False}).toml).data.balance is False


# --- refusals -------------------------------------------------------------------------------------


def refusal(table: dict[str, Any], where: str = "spec", **more: Any) -> str:
    """The one line with which a table is refused."""
    with pytest.raises(UsageError) as caught:
        Spec.parse(table, where, **more)
    line = str(caught.value)
    assert "\n" not in line
    assert "pydantic" not in line
    assert caught.value.exit_code == 2
    return line


def test_a_field_may_be_called_by_its_option() -> None:
    line = refusal(having("population.clients", 0), "train", names={"population.clients": "--clients"})
    assert line == "train: --clients=0: input should be greater than or equal to 1"


def test_a_spec_needs_its_own_schema() -> None:
    assert Spec.from_toml("").table()["schema"] == "foltr-audit/spec/1"
    assert refusal({"schema": "foltr-audit/trace/1"}).startswith("spec: schema=foltr-audit/trace/1: ")


def spec(server: str, *defense: str, **more: Any) -> fa.Spec:
    return fa.Spec(
        data={"source": "synthetic:mq2007:40"},
        population={"clients": 30, "cohort": 10},
        train={"rounds": 1, "server": server},
        defense=list(defense),
        **more,
    )


@pytest.mark.parametrize("server", ["saturate", "flatten", "sybils:share=.29", "replay"])
def test_an_audit_looks_at_the_sums_that_the_server_reads(server: str) -> None:
    made = spec(server, "secure-aggregation", audit={})
    assert made.audit is not None
    assert made.audit.views == ("aggregate", "aggregate+lists")
    assert made.trace.message == "update"
    assert fa.Spec.from_toml(made.toml) == made


@pytest.mark.parametrize("server", ["saturate", "sybils:share=.5", "replay", "differencing", "honest"])
@pytest.mark.parametrize(
    "audit", [{"views": ["individual"]}, {"views": ["aggregate"]}, {"views": ["colluding"], "colluders": 3}]
)
def test_every_view_of_a_server_can_be_audited(server: str, audit: dict[str, object]) -> None:
    made = spec(server, audit=audit)
    assert made.audit is not None
    assert list(made.audit.views) == audit["views"]


def test_a_broken_field_beside_an_audit_is_named_itself() -> None:
    with pytest.raises(UsageError, match="cohort=10"):
        fa.Spec(population={"clients": 5, "cohort": 10}, train={"server": "replay"}, audit={})
    with pytest.raises(UsageError, match="no-such"):
        spec("replay", "no-such", audit={})


@pytest.mark.parametrize("protocol", ["membership", "unlearning"])
def test_other_protocols_know_honest_servers(protocol: str) -> None:
    with pytest.raises(UsageError, match="honest servers"):
        spec("flatten", **{protocol: {}})


def test_its_own_clients_are_colluders() -> None:
    """The same trials, whether the server or others run the clients whose noise it knows."""
    noise, few = "clip:norm=1,of=update,at=message,ord=1+gamma-laplace:eps=1,sensitivity=2", {"trials": 60}
    protocol = {"units": ["client"], "canaries": ["message"], "models": ["first"], **few}
    cheating = fa.audit(spec("sybils:share=.5", noise, audit=protocol))
    made = spec("honest", noise, audit=protocol | {"views": ["colluding"], "colluders": 5})
    honest = fa.audit(made.model_copy(update={"trace": made.trace.model_copy(update={"message": "update"})}))
    measured, expected = ([row["eps_lower"] for row in each.results] for each in (cheating, honest))
    assert measured == expected
    assert measured
