"""The Spec: one canonical form, a hash that moves with every field, and one clear line for what is wrong."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

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
        inner = dotted(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
        leaves |= inner
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


@pytest.mark.parametrize("seed", ["1", "77"])
def test_the_hash_is_the_same_in_another_process(seed: str) -> None:
    code = "from foltr_audit.core.settings.experiment import Spec; print(Spec(attack={}).hash)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == Spec(attack={}).hash


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


@given(SPEC_TABLES, SPEC_TABLES)
def test_two_specs_are_equal_just_if_their_hashes_are(one: dict[str, Any], two: dict[str, Any]) -> None:
    a, b = Spec.parse(one), Spec.parse(two)
    assert (a == b) == (a.hash == b.hash) == (first_difference(a, b) is None)


def test_first_difference_names_one_field_with_both_values() -> None:
    spec = Spec.parse(FULL)
    assert first_difference(spec, spec) is None
    other = Spec.parse(having("population.separation", None))
    assert first_difference(spec, other) == "population.separation is 2 there and None here"
    assert first_difference(other, spec) == "population.separation is None there and 2 here"
    without = Spec.parse({name: value for name, value in FULL.items() if name != "attack"})
    assert str(first_difference(without, spec)).startswith("attack.methods is None there and [")
    assert (
        first_difference(Spec(seed=1, repetition=1), Spec(seed=2, repetition=2))
        == "seed is 1 there and 2 here"
    )


def test_the_undefended_twin() -> None:
    spec = Spec.parse(FULL)
    twin = spec.undefended
    assert (twin.defense, twin.attack) == (("none",), None)
    assert Spec.from_toml(twin.toml) == twin
    assert twin.undefended == twin
    assert Spec.parse({**FULL, "defense": ["none"], "attack": None, "audit": None}) == twin


def test_a_spec_is_frozen() -> None:
    spec = Spec.parse(FULL)
    for owner, name in (
        (spec, "seed"),
        (spec.data, "fold"),
        (spec.train, "rounds"),
        (spec.attack, "repeats"),
    ):
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


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"sead": 1}, "x.toml: unknown field 'sead'; did you mean 'seed'? (known: attack, audit, data, "),
        ({"schema_": 1}, "x.toml: unknown field 'schema_'; did you mean 'schema'?"),
        ({"data": {"sources": "x"}}, "x.toml: unknown field data.sources; did you mean 'source'?"),
        ({"population": {"client": 3}}, "x.toml: unknown field population.client; did you mean 'clients'?"),
        ({"train": {"epochs": 3}}, "x.toml: unknown field train.epochs; "),
        ({"attack": {"repeat": 3}}, "x.toml: unknown field attack.repeat; did you mean 'repeats'?"),
    ],
)
def test_unknown_fields_get_the_nearest_name(table: dict[str, Any], line: str) -> None:
    assert refusal(table, "x.toml").startswith(line)


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("schema", "foltr-audit/spec/2", "schema=foltr-audit/spec/2: "),
        ("seed", -1, "seed=-1: input should be greater than or equal to 0"),
        ("seed", 2**63, f"seed={2**63}: input should be less than {2**63}"),
        ("seed", 1.5, "seed=1.5: "),
        ("seed", "one", "seed=one: "),
        ("repetition", -1, "repetition=-1: "),
        ("defense", 3, "defense=3: "),
        ("defense", ["clap"], "unknown defense 'clap'; did you mean 'clip'?"),
        ("defense", ["clip:norm=0"], "defense clip: norm=0: "),
        ("data", "mq2008", "data=mq2008: "),
        ("data.source", "", "data.source=: "),
        ("data.source", 3, "data.source=3: "),
        ("data.fold", -1, "data.fold=-1: "),
        (
            "data.normalise",
            "l2",
            "data.normalise=l2: input should be 'zscore', 'zscore-parts', 'query-minmax' or",
        ),
        ("population.clients", 0, "population.clients=0: "),
        ("population.clients", float("nan"), "population.clients=nan: "),
        ("population.cohort", 0, "population.cohort=0: "),
        ("population.cohort", 51, "population: cohort=51: expected at most the number of clients, 50"),
        (
            "population.separation",
            3,
            "population: separation=3: cohorts of 20 out of 50 clients; expected at "
            "most 2, the cohorts without a common client",
        ),
        ("population.scenario", "zipf", "unknown scenario 'zipf'; known: abrupt, click-skew"),
        ("train.rounds", 0, "train.rounds=0: "),
        (
            "train.ranker",
            "lambda",
            "train.ranker: unknown 'lambda'; expected linear or neural:hidden=H,layers=L",
        ),
        ("train.click_model", "perfekt", "unknown click model 'perfekt'; did you mean 'perfect'?"),
        ("train.learner", "fpdgd:interactions=0", "learner fpdgd: interactions=0: "),
        ("train.learner", "fpdgd:learning_rate=nan", "learner fpdgd: learning_rate=nan: "),
        ("data.intents", "", "data.intents: intents '': expected a folder of qrels, or synthetic:I"),
        ("data.intents", "synthetic:1", "data.intents: intents 'synthetic:1': expected synthetic:I with I "),
        (
            "data.intents",
            "synthetic:11",
            "data.intents: intents 'synthetic:11': expected synthetic:I with I ",
        ),
        ("data.intents", "synthetic:x", "data.intents: intents 'synthetic:x': expected synthetic:I with I "),
        ("train.no_relevant", "one", "train.no_relevant=one: "),
        ("trace.message", "es", "trace.message=es: "),
        ("trace.dtype", "float16", "trace.dtype=float16: "),
        ("attack.methods", [], "attack.methods=[]: "),
        ("attack.methods", ["olrs"], "unknown attack 'olrs'; did you mean 'olsr'?"),
        ("attack.click_models", [], "attack.click_models=[]: "),
        ("attack.click_models", ["random"], "unknown click model 'random'; "),
        ("attack.target", "all", "attack.target=all: "),
        ("attack.on", [], "attack.on=[]: "),
        ("attack.on", ["dev"], "attack.on: unknown part 'dev'; "),
        ("attack.on", ["tset"], "attack.on: unknown part 'tset'; did you mean 'test'?"),
        ("attack.repeats", 0, "attack.repeats=0: "),
        ("attack.min_documents", 0, "attack.min_documents=0: "),
    ],
)
def test_refused_values(name: str, value: Any, line: str) -> None:
    assert refusal(having(name, value), "x.toml").startswith(f"x.toml: {line}")


def test_a_field_may_be_called_by_its_option() -> None:
    line = refusal(having("population.clients", 0), "train", names={"population.clients": "--clients"})
    assert line == "train: --clients=0: input should be greater than or equal to 1"


@pytest.mark.parametrize("text", ["seed = ", "seed = 1\nseed = 2", "[data", "= 3", "seed = 1 2"])
def test_what_is_no_toml(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x\.toml: not TOML: "):
        Spec.from_toml(text, "x.toml")


def test_a_spec_needs_its_own_schema() -> None:
    assert Spec.from_toml("").table()["schema"] == "foltr-audit/spec/1"
    assert refusal({"schema": "foltr-audit/trace/1"}).startswith("spec: schema=foltr-audit/trace/1: ")
