"""Options of `attack` that say what the server knows and what is reported: --hide, --queries, B lists."""

from __future__ import annotations

from pathlib import Path

import foltr_audit as fa
from tests.fixtures.command import SMALL, answer, refusal, run

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
