"""`trace infer`: its table, its JSON, and a last line that can be pasted after an attack."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
from foltr_audit.recorder import ReceivedMessage, Recorder

from tests.fixtures import foreign_trace
from tests.fixtures.command import run
from tests.fixtures.foreign_trace import System
from tests.fixtures.schemas import agrees_with_published

SYSTEM = System(clients=32, rounds=1, shares=None, seed=3)
FACTS = dict.fromkeys(("learning_rate", "pairs", "normaliser", "noise"))


def test_the_last_line_runs_the_refused_attack(tmp_path: Path) -> None:
    header = foreign_trace.header(SYSTEM, facts=FACTS)
    folder = foreign_trace.write(tmp_path / "t", header, foreign_trace.records(SYSTEM))
    assert run("attack", "--trace", folder, "--method", "map").code == 2
    done = run("trace", "infer", folder)
    assert done.code == 0
    (line,) = [one for one in done.out.splitlines() if one.startswith("to state these: ")]
    know = shlex.split(line.removeprefix("to state these: "))
    assert {"learning_rate=0.1", "pairs=all", "normaliser=shown", "noise=none"} == set(know[1::2])
    found = run("attack", "--trace", folder, "--method", "map", *know, "--json").json()
    (row,) = [each for each in found["results"] if each["method"] == "map"]
    assert row["exact"] > 0.95


def test_json_has_a_row_for_each_fact(tmp_path: Path) -> None:
    few = replace(SYSTEM, clients=8)
    header = foreign_trace.header(few, facts={"learning_rate": 0.3})
    folder = foreign_trace.write(tmp_path / "t", header, foreign_trace.records(few))
    table = run("trace", "infer", folder, "--json").json()
    agrees_with_published(table)
    assert table["schema"] == "foltr-audit/trace-infer/1"
    rows = {row["fact"]: row for row in table["results"]}
    assert (rows["learning_rate"]["declared"], rows["learning_rate"]["estimate"]) == (0.3, 0.1)
    assert rows["learning_rate"]["agrees"] is False
    assert rows["pairs"]["agrees"] is True
    assert rows["clip_norm"] == {
        "trace": str(folder),
        "fact": "clip_norm",
        "declared": None,
        "estimate": None,
        "agrees": None,
        "sure": "cannot tell",
        "source": rows["clip_norm"]["source"],
    }
    assert table["know"] == {str(folder): "--know learning_rate=0.1"}


def test_what_cannot_be_computed_stops_nothing(tmp_path: Path) -> None:
    few = replace(SYSTEM, clients=6)
    rounds = foreign_trace.records(few)
    bare = [(replace(record, features=None), truth) for record, truth in rounds]
    for name, header, made, why in (
        ("a", {"ranker": "mlp:hidden=16"}, rounds, "ranker 'mlp:hidden=16' is not known"),
        ("b", {"embeds_features": False}, bare, "features are not embedded"),
    ):
        head = foreign_trace.header(few, facts=FACTS, **header)
        folder = foreign_trace.write(tmp_path / name, head, made)
        done = run("trace", "infer", folder, "--json")
        assert done.code == 0
        rows = {row["fact"]: row for row in done.json()["results"]}
        assert rows["interactions"]["estimate"] == 1
        assert why in rows["noise"]["source"]
        assert (rows["learning_rate"]["sure"], rows["learning_rate"]["estimate"]) == ("cannot tell", None)
    error = run("attack", "--trace", tmp_path / "b", "--method", "olsr").one_error()
    assert "features are not embedded, and it names no data; give --data" in error


def test_a_trace_without_lists_says_whom_to_ask_for_them(tmp_path: Path) -> None:
    with Recorder(tmp_path / "live", source="Flower", truth=True) as recorder:
        recorder.round(np.zeros(4), [ReceivedMessage(arrays=np.ones(4)) for _ in range(3)])
    error = run("attack", "--trace", tmp_path / "live", "--method", "olsr").one_error()
    assert "'Flower' is no data set here; record the lists of clients that agree, or give --data" in error
