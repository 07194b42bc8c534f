"""`foltr-audit diff` on small real Runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.command import SMALL, run
from tests.fixtures.stored_runs import rounds_of, write_run, write_system


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run `a`, the same again as `same`, with more rounds as `longer`, and with noise as `noisy`."""
    place = tmp_path_factory.mktemp("runs")
    for name, more in {"a": (), "same": (), "longer": ("--rounds", 4), "noisy": ("--eps", 1.2)}.items():
        assert run("train", *SMALL, *more, "--out", place / name).code == 0
    return place


def test_the_same_command_twice_makes_no_difference(runs: Path) -> None:
    done = run("diff", runs / "a", runs / "same", "--exit-code", "--json")
    assert (done.code, done.err) == (0, "")
    found = done.json()
    assert found["schema"] == "foltr-audit/diff/1"
    assert found["differs"] is False
    assert (found["spec"], found["first_different_model"], found["common_rounds"]) == ([], None, 3)
    assert {file["name"]: file["found"] for file in found["files"]}["model.npy"] == "equal"
    assert all(pair["difference"] == 0 for pair in found["metrics"])


def test_more_rounds_go_on_from_the_same_models(runs: Path) -> None:
    found = run("diff", runs / "a", runs / "longer", "--json").json()
    assert found["spec"] == [{"field": "train.rounds", "a": 3, "b": 4}]
    assert (found["first_different_model"], found["common_rounds"]) == (None, 3)
    assert (found["a"]["rounds"], found["b"]["rounds"]) == (3, 4)
    kept = json.loads((runs / "a" / "results.json").read_text())["rounds"][-1]
    pair = next(pair for pair in found["metrics"] if pair["metric"] == "offline_ndcg@10")
    assert pair["a"] == kept["offline_ndcg@10"]
    assert pair["difference"] == pair["b"] - pair["a"]


def test_noise_shows_in_the_first_round_and_leaves_its_lists_alone(runs: Path) -> None:
    found = run("diff", runs / "a", runs / "noisy", "--json").json()
    assert [one["field"] for one in found["spec"]] == ["defense"]
    assert found["first_different_model"] == {"round": 0, "what": "aggregate"}
    models = [np.load(runs / name / "model.npy", allow_pickle=False) for name in ("a", "noisy")]
    assert not np.array_equal(*models)
    assert {file["name"]: file["found"] for file in found["files"]}["model.npy"] == "different"


def test_exit_code_and_tables(runs: Path) -> None:
    plain = run("diff", runs / "a", runs / "noisy")
    strict = run("diff", runs / "a", runs / "noisy", "--exit-code")
    assert (plain.code, strict.code) == (0, 1)
    assert plain.out == strict.out
    assert strict.err == ""
    for text in ("gamma-laplace:eps=1.2", "offline_ndcg@10", "The Runs part in round 0", "model.npy"):
        assert text in plain.out
    same = run("diff", runs / "a", runs / "same").out
    assert "The Specs are equal." in same
    assert "models of 3 rounds are equal byte for byte" in same


def test_refusals_are_one_line(tmp_path: Path) -> None:
    write_run(tmp_path / "one", rounds_of(0.5))
    plan = write_system(tmp_path / "several", [0.3, 0.1])
    several = run("diff", tmp_path / "one", tmp_path / "several")
    assert several.code == 2
    line = several.one_error()
    assert plan.specs[0].hash[:12] in line
    assert "name one of them" in line
    inner = tmp_path / "several" / plan.specs[0].hash[:12]
    assert run("diff", tmp_path / "one", inner).code == 0
    assert run("diff", tmp_path / "one", tmp_path / "nowhere").code == 2
    (inner / "trace" / "trace.toml").write_text("schema = ")
    damaged = run("diff", tmp_path / "one", inner)
    assert damaged.code == 3
    assert "trace.toml" in damaged.one_error()
