"""Attacks that ask something else, from the command line to their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fixtures.command import SMALL, refusal, run

ONE = ("--click-model", "informational", "--eps", 1.2)
SUMS = ("--view", "aggregate", "--repeats", 5)
FEW = ("--data", "synthetic:mq2007:20", "--clients", "40", "--rounds", "3")
"""Options of a run with fewer queries, for decoders of sums, which take long."""


def methods(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["method"] for row in rows]


# --- which query ----------------------------------------------------------------------------------


def test_query_id_runs_alone() -> None:
    table = run("attack", *SMALL, *ONE, "--method", "query-id", "--choices", 4, "--json").json()
    (row,) = table["query_identification"]
    assert (row["method"], row["choices"], row["choices_asked"], row["chance"]) == ("query-id", 4, 4, 0.25)
    assert row["accuracy_with_pairs"] > 0.8, "a share of the noise hides no query"
    assert all(row["baseline"] for row in table["results"]), "no other attack ran"
    assert table["counts"] == []


def test_query_id_beside_other_attacks_changes_none_of_them() -> None:
    both = run("attack", *SMALL, *ONE, "--method", "query-id", "--method", "olsr", "--json").json()
    alone = run("attack", *SMALL, *ONE, "--method", "olsr", "--json").json()
    assert both["results"] == alone["results"]
    assert alone["query_identification"] == []
    assert methods(both["query_identification"]) == ["query-id"]


def test_the_query_may_be_hidden() -> None:
    options = ("--method", "query-id", "--method", "olsr", "--json")
    known = run("attack", *SMALL, *ONE, *options).json()
    hidden = run("attack", *SMALL, *ONE, *options, "--hide", "query").json()
    ((without,), (with_,)) = (each["query_identification"] for each in (hidden, known))
    assert without | {"sees": with_["sees"]} == with_
    assert (with_["sees"], without["sees"]) == ("message and lists", "message")
    assert "olsr" in methods(hidden["refused"])


def test_all_queries_are_used_where_there_are_fewer() -> None:
    done = run("attack", *SMALL, *ONE, "--method", "query-id", "--choices", 1000)
    assert done.code == 0
    assert "not 1000: there are no more" in " ".join(done.out.split())


def test_a_recorded_run_tells_the_same_queries(tmp_path: Path) -> None:
    options = ("--method", "query-id", "--choices", 5, "--json")
    direct = run("attack", *SMALL, *ONE, *options, "--out", tmp_path / "run").json()
    again = run("attack", "--trace", tmp_path / "run", "--json").json()
    assert again["query_identification"] == direct["query_identification"]
    other = run("attack", "--trace", tmp_path / "run", "--choices", 2, "--json").json()
    assert other["query_identification"][0]["chance"] == 0.5
    assert "guesses are of clicks, and it finds the query" in refusal(
        "attack", "--trace", tmp_path / "run", "--guesses", tmp_path / "guesses.csv"
    )


# --- counts ---------------------------------------------------------------------------------------


def test_sums_are_counted_and_nothing_else() -> None:
    table = run("attack", *FEW, *ONE, *SUMS, "--method", "aggregate", "--method", "olsr", "--json").json()
    assert table["results"] == table["any_click"] == table["query_identification"] == []
    beside = ["constant", "position-prior", "position-prior:median", "relevance-prior"]
    assert methods(table["counts"]) == [*beside, "aggregate"]
    for row in table["counts"]:
        assert (row["view"], row["clients_min"], row["clients_max"]) == ("aggregate", 5, 5)
    errors = {row["method"]: row["error"] for row in table["counts"]}
    assert errors["aggregate"] < errors["position-prior:median"]
    (refused,) = table["refused"]
    assert refused["method"] == "olsr"
    assert refused["reason"].startswith("it finds the clicks behind single messages, and these are sums")


def test_a_recorded_run_tells_the_same_counts(tmp_path: Path) -> None:
    options = (*SUMS, "--method", "aggregate:restarts=2", "--json")
    direct = run("attack", *FEW, *ONE, *options, "--out", tmp_path / "run").json()
    again = run("attack", "--trace", tmp_path / "run", "--json").json()
    assert again["counts"] == direct["counts"]
    assert methods(again["counts"])[-1] == "aggregate:restarts=2"


# --- tables ---------------------------------------------------------------------------------------


def test_messages_of_one_client_are_pooled() -> None:
    whole = ("--defense", "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3")
    done = run("attack", *FEW, *whole, "--view", "pooled", "--repeats", 5, "--method", "aggregate:restarts=0")
    assert done.code == 0
    assert "sums over 5 messages of one client" in " ".join(done.out.split())
    rows = run(
        "attack", *FEW, *ONE, "--view", "pooled", "--repeats", 5, "--method", "aggregate:restarts=1", "--json"
    ).json()["counts"]
    assert {row["view"] for row in rows} == {"pooled"}
    errors = {row["method"]: row["error"] for row in rows}
    assert errors["aggregate:restarts=1"] < errors["position-prior:median"]
