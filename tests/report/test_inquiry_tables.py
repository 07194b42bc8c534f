"""Attacks that ask something else, from the command line to their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fixtures.command import SMALL, answer, refusal, run

ONE = "attack --click-model informational --eps 1.2"
SUMS = f"{ONE} --view aggregate --repeats 5"
FEW = ("--data", "synthetic:mq2007:20", "--clients", "40", "--rounds", "3")
"""Options of a run with fewer queries, for decoders of sums, which take long."""


def methods(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["method"] for row in rows]


# --- which query ----------------------------------------------------------------------------------


def test_query_id_runs_alone() -> None:
    table = answer(f"{ONE} --method query-id --choices 4", *SMALL)
    (row,) = table["query_identification"]
    assert (row["method"], row["choices"], row["choices_asked"], row["chance"]) == ("query-id", 4, 4, 0.25)
    assert row["accuracy_with_pairs"] > 0.8, "a share of the noise hides no query"
    assert all(row["baseline"] for row in table["results"]), "no other attack ran"
    assert table["counts"] == []


def test_query_id_beside_other_attacks_changes_none_of_them() -> None:
    both = answer(f"{ONE} --method query-id --method olsr", *SMALL)
    alone = answer(f"{ONE} --method olsr", *SMALL)
    assert both["results"] == alone["results"]
    assert alone["query_identification"] == []
    assert methods(both["query_identification"]) == ["query-id"]
    hidden = answer(f"{ONE} --method query-id --method olsr --hide query", *SMALL)
    ((without,), (with_,)) = (each["query_identification"] for each in (hidden, both))
    assert without | {"sees": with_["sees"]} == with_
    assert (with_["sees"], without["sees"]) == ("message and lists", "message")
    assert "olsr" in methods(hidden["refused"])


def test_all_queries_are_used_where_there_are_fewer() -> None:
    done = run(f"{ONE} --method query-id --choices 1000", *SMALL)
    assert done.code == 0
    assert "not 1000: there are no more" in " ".join(done.out.split())


def test_a_recorded_run_tells_the_same_queries(tmp_path: Path) -> None:
    direct = answer(f"{ONE} --method query-id --choices 5", *SMALL, "--out", tmp_path / "run")
    again = ("attack --trace", tmp_path / "run")
    assert answer(*again)["query_identification"] == direct["query_identification"]
    assert answer(*again, "--choices", 2)["query_identification"][0]["chance"] == 0.5
    error = refusal(*again, "--guesses", tmp_path / "guesses.csv")
    assert "guesses are of clicks, and it finds the query" in error


# --- counts ---------------------------------------------------------------------------------------


def test_sums_are_counted_and_nothing_else() -> None:
    table = answer(f"{SUMS} --method aggregate --method olsr", *FEW)
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
    direct = answer(f"{SUMS} --method aggregate:restarts=2", *FEW, "--out", tmp_path / "run")
    again = answer("attack --trace", tmp_path / "run")
    assert again["counts"] == direct["counts"]
    assert methods(again["counts"])[-1] == "aggregate:restarts=2"


# --- tables ---------------------------------------------------------------------------------------


def test_messages_of_one_client_are_pooled() -> None:
    whole = "--defense clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
    done = run(f"attack {whole} --view pooled --repeats 5 --method aggregate:restarts=0", *FEW)
    assert done.code == 0
    assert "5 messages of one client" in " ".join(done.out.split())
    rows = answer(f"{ONE} --view pooled --repeats 5 --method aggregate:restarts=1", *FEW)["counts"]
    assert {row["view"] for row in rows} == {"pooled"}
    errors = {row["method"]: row["error"] for row in rows}
    assert errors["aggregate:restarts=1"] < errors["position-prior:median"]
