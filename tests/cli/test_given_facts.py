"""What the server knows and what is reported: `--know`, `--hide`, `--queries`, and several lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import foltr_audit as fa
from tests.fixtures import foreign_trace
from tests.fixtures.command import SMALL, answer, refusal, run
from tests.fixtures.foreign_trace import System

SYSTEM = System(clients=30, rounds=1, shares=None, seed=3)
GIVEN = ("--know", "learning_rate=.1", "--know", "pairs=all", "--know", "normaliser=shown")


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace whose header says nothing of the learner."""
    facts = dict.fromkeys(("learning_rate", "pairs", "normaliser"))
    header = foreign_trace.header(SYSTEM, facts=facts)
    folder = tmp_path_factory.mktemp("silent") / "trace"
    return foreign_trace.write(folder, header, foreign_trace.records(SYSTEM))


def test_a_refused_attack_names_the_missing_facts_and_how_to_give_them(silent: Path) -> None:
    error = refusal("attack --method map --trace", silent)
    assert "the observer does not know: learning_rate, normaliser, pairs" in error
    assert "--know learning_rate=0.1 --know normaliser=shown --know pairs=all" in error
    hidden = refusal("attack --method map --hide order --trace", silent, *GIVEN)
    assert hidden.endswith("the observer does not know: order")


def test_given_facts_run_the_attack_and_are_named(silent: Path) -> None:
    attack = ("attack --method map --trace", silent, *GIVEN)
    assert "facts given by hand: learning_rate 0.1, pairs all, normaliser shown" in run(*attack).out
    done = run(*attack, "--json")
    found, known = done.json(), {"learning_rate": 0.1, "pairs": "all", "normaliser": "shown"}
    assert found["config"]["known"] == known
    (row,) = [each for each in found["results"] if each["method"] == "map"]
    assert row["exact"] > 0.95
    assert fa.attack_trace(str(silent), "map", know=known).json() == done.out.rstrip("\n")


def test_the_facts_check_takes_given_facts(silent: Path) -> None:
    assert "not checked" in run("trace", "check-facts", silent).out
    right = run("trace", "check-facts", silent, *GIVEN)
    assert "facts given by hand: learning_rate 0.1" in right.out
    assert "explain 100 %" in right.out
    assert right.code == 0
    wrong = run("trace", "check-facts", silent, *GIVEN[2:], "--know", "learning_rate=.3", "--json")
    assert wrong.code == 1
    assert wrong.json()["facts"][0]["known"]["learning_rate"] == 0.3


def test_given_facts_also_replace_those_of_rounds(tmp_path: Path) -> None:
    facts = {"learning_rate": 0.5}
    rounds = [(replace(record, facts=facts), truth) for record, truth in foreign_trace.records(SYSTEM)]
    folder = foreign_trace.write(tmp_path / "t", foreign_trace.header(SYSTEM), rounds)
    assert run("trace", "check-facts", folder).code == 1
    right = run("trace", "check-facts", folder, *GIVEN)
    assert right.out.rstrip().endswith("declared facts explain 100 % of 30 messages")


def test_a_client_step_that_is_given_as_a_fact_must_exist(silent: Path) -> None:
    error = refusal("attack --know client_step=mine --trace", silent, code=3)
    assert "unknown client step 'mine'" in error


# --- --hide, --queries, several lists -------------------------------------------------------------

ONE = ("--click-model", "informational", "--eps", 1.2)


def methods(rows: list[dict[str, object]]) -> set[object]:
    return {row["method"] for row in rows}


def test_named_queries_are_reported_one_by_one(tmp_path: Path) -> None:
    assert answer("attack", *SMALL, *ONE, "--out", tmp_path / "run")["queries"] == []
    name = first_query(tmp_path / "run")
    other = fa.load_data(SMALL[1]).query_name("train", 0)
    (tmp_path / "names.txt").write_text(f"# sensitive\n{name}\n\n{other}\n", encoding="utf-8")
    for given in (f"{name},{other}", tmp_path / "names.txt"):
        rows = answer("attack --trace", tmp_path / "run", "--queries", given)["queries"]
        mine = [row for row in rows if row["query"] == name]
        assert {"olsr", "first-position"} <= methods(mine)
        for row in mine:
            assert len(row["shown"]) == len(row["clicked"]) == len(row["guessed"]) == len(row["scores"])
            assert row["exact"] == (row["clicked"] == row["guessed"])
        assert [row["method"] for row in rows if row["query"] == other] == [None]
    error = refusal("attack --trace", tmp_path / "run", "--queries", f"{name},{name}x")
    assert f"'{name}x' is no query" in error


def first_query(folder: Path) -> str:
    """The id of a query that was attacked."""
    import polars as pl

    guesses = folder.parent / "guesses.csv"
    run("attack", "--trace", folder, "--guesses", guesses)
    return str(pl.read_csv(guesses, infer_schema=False)["query"][0])


def test_a_neural_ranker_is_attacked_through_its_jacobian() -> None:
    done = answer("attack --ranker neural:hidden=3 --method map", *SMALL, *ONE)
    (row,) = [row for row in done["results"] if row["method"] == "map"]
    (chance,) = [row for row in done["results"] if row["method"] == "random:k=mean"]
    assert row["exact"] > chance["exact"]
    assert row["accuracy"] > chance["accuracy"]
