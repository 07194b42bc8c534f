"""Commands on data: a search log of real users, who its clients are and their attacks; made data; facts."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import foltr_audit as fa
from foltr_audit.data.synthetic import synthesise
from foltr_audit.errors import UsageError
from foltr_audit.experiments.plan import with_users
from tests.fixtures.command import SHARED, answer, refusal, run
from tests.fixtures.search_logs import letor, metadata, searches, write_log

pytestmark = pytest.mark.usefixtures("laws_as_declared")
USERS = 12


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_log(tmp_path_factory.mktemp("log"), searches(USERS, count=40, features=103))


def spec_of(log: str, out: Path, *options: object) -> dict[str, Any]:
    """The Spec that `train` saves."""
    done = run("train", "--data", log, "--rounds", 1, "--save-config", out, *options)
    assert done.code == 0, done.err
    return tomllib.loads(out.read_text())


def test_data_info_counts_users_and_what_is_left_out(log: str, tmp_path: Path) -> None:
    facts = answer("data info", log)
    assert (facts["features"], facts["queries_left_out"]) == (103, 0)
    train = facts["parts"]["train"]
    assert (train["queries"], train["users"], train["labels"]) == (24, USERS, {"0": 456, "1": 24})
    assert train["queries_per_user"]["mean"] == 2
    rows = searches(USERS, count=40, documents=3, features=2)
    write_log(tmp_path, rows)
    (tmp_path / "metadata.csv").write_text(metadata(rows[5:]))
    done = run("data info", tmp_path)
    assert "5 queries that are not in the log left out" in " ".join(done.out.split())
    assert "queries per user" in done.out
    (tmp_path / "metadata.csv").write_text("")
    done = run("data info", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("error: data: metadata.csv: empty")


def test_the_clients_are_the_users_unless_fewer_are_asked_for(log: str, tmp_path: Path) -> None:
    config = tmp_path / "spec.toml"
    assert spec_of(log, config)["population"]["clients"] == USERS
    assert run("train", "--config", config).code == 0  # the saved Spec is the same experiment
    assert spec_of(log, config, "--clients", 5)["population"]["clients"] == 5
    error = refusal("train --clients 13 --data", log)
    assert error == "error: clients: 13 clients, but the training split has 12 users; expected at most 12"
    done = run("train --cohort 13 --data", log)
    assert "cohort=13: expected at most the number of clients, 12" in done.err
    with pytest.raises(UsageError, match="1000 clients, but the training split has 12 users"):
        fa.simulate(fa.Spec(data={"source": log}))
    report = fa.simulate(fa.Spec(data={"source": log}, population={"clients": USERS}, train={"rounds": 1}))
    assert report.dataset["source"] == Path(log).name


def test_fewer_clients_where_few_show(log: str) -> None:
    table: dict[str, Any] = {"data": {"source": log}}
    assert with_users(table)["population"] == {"clients": USERS}
    assert with_users({**table, "unlearning": {}})["population"] == {"clients": USERS}
    found = with_users({**table, "membership": {}})
    assert (found["population"], found["membership"]) == ({"clients": 3}, {"others": 6})
    found = with_users({**table, "membership": {}, "population": {"clients": 4}})
    assert (found["population"], found["membership"]) == ({"clients": 4}, {"others": 4})
    others: list[dict[str, Any]] = [{}, {"data": {}}, {"data": 3}, {"data": {"source": 3}}]
    for other in [*others, {"data": {"source": "/nowhere\0"}}]:
        assert with_users(other) == other


def test_a_log_whose_file_changes_is_counted_again(tmp_path: Path) -> None:
    table: dict[str, Any] = {"data": {"source": write_log(tmp_path, searches(4, 20, 2, 2))}}
    assert with_users(table)["population"] == {"clients": 4}
    write_log(tmp_path, searches(3, 21, 2, 2))
    assert with_users(table)["population"] == {"clients": 3}


def test_messages_of_users_are_attacked(log: str, tmp_path: Path) -> None:
    asked = "attack --rounds 3 --interactions 1 --target training --method olsr --method map --data"
    rows = {row["method"]: row for row in answer(asked, log, "--out", tmp_path / "run")["results"]}
    assert rows["olsr"]["recall"] == rows["map"]["recall"] == 1.0
    again = json.loads(fa.attack_trace(tmp_path / "run", "map").json())
    assert [row["recall"] for row in again["results"] if row["method"] == "map"] == [1.0]


def test_fresh_clients_of_a_user_are_attacked(log: str) -> None:
    of_two = "--attack-interactions 2 --click-model informational --attack-on train"
    found = answer(f"attack --rounds 1 --method olsr {of_two} --data", log)
    assert found["dataset"]["queries_too_short"] > 0


def test_a_claim_about_a_user_is_audited(log: str) -> None:
    asked = "audit --rounds 1 --interactions 1 --eps 1 --unit client --trials 200 --json --data"
    done = run(asked, log)
    assert done.code == 1, done.err  # the published claim is false
    assert {row["unit"] for row in done.json()["results"]} == {"client"}


def test_membership_of_users_is_inferred(log: str) -> None:
    asked = ("study membership --rounds 2 --interactions 1 --shadows 16 --references 1 --data", log)
    rows = answer(*asked)["results"]
    assert {(row["members"], row["candidates"]) for row in rows} == {(3, 6)}
    done = run(*asked, "--clients", 7)
    assert done.code == 2
    said = "membership with 7 members has 14 candidates and 7 others, but the training split has 12"
    assert said in done.err


def test_a_comparison_has_the_users_as_clients(log: str, tmp_path: Path) -> None:
    asked = "compare --dry-run --rounds 1 --runs 1 --click-model perfect --defense none --no-audit --data"
    assert run(asked, log, "--save-config", tmp_path / "grid.toml").code == 0
    grid = tomllib.loads((tmp_path / "grid.toml").read_text())
    assert grid["spec"]["population"] == {"clients": USERS}


def test_uniform_clients_search_the_lists_without_their_users(log: str, tmp_path: Path) -> None:
    lists = tmp_path / "letor.txt"
    lists.write_text(letor(searches(3, 20, 3, 2)))
    assert run("train", "--data", lists, "--rounds", 1, "--clients", 50).code == 0


# --- data that are made, and data of others -------------------------------------------------------


def test_synth_writes_data_that_read_back_as_generated(tmp_path: Path) -> None:
    out = tmp_path / "made"
    assert run("data synth --like mq2007 --queries 20 --out", out).code == 0
    facts = answer("data info", out)
    assert facts["fingerprint"] == synthesise("mq2007", queries=20).fingerprint
    assert [facts["parts"][part]["queries"] for part in ("train", "vali", "test")] == [12, 4, 4]


def test_synth_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("dear")
    assert "--overwrite" in refusal("data synth --queries 10 --out", tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "dear"
    assert run("data synth --queries 10 --out", tmp_path, "--overwrite").code == 0


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_info_counts_a_query_with_one_document() -> None:
    facts = answer("data info", SHARED / "data" / "lightgbm-rank")
    counted = sum(part["queries_with_one_document"] for part in facts["parts"].values())
    assert counted == 1
    assert facts["features"] == 300
