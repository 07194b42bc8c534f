"""What two Runs with known differences are said to differ in."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.errors import TraceError
from foltr_audit.experiments.runs.differences import RunDiff
from foltr_audit.experiments.runs.reader import RunReader
from foltr_audit.report.tables.run_differences import DiffReport, models_line
from tests.fixtures.stored_runs import P, rounds_of, write_run

ROUNDS = rounds_of(0.7, [0.1, 0.2, 0.6])


def compare(a: Path, b: Path) -> RunDiff:
    return RunDiff.of(RunReader.open(a), RunReader.open(b))


def files_of(diff: RunDiff) -> dict[str, str]:
    return {file.name: file.found for file in diff.files}


def test_a_copy_does_not_differ(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ROUNDS)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    found = compare(tmp_path / "a", tmp_path / "b")
    assert not found.differs
    assert (found.fields, found.models) == ([], None)
    assert set(files_of(found).values()) == {"equal"}
    assert "trace/truth/clicks" in files_of(found)
    assert all(pair.equal for pair in found.metrics)
    assert "models of 3 rounds are equal" in models_line(found)


def test_every_field_is_named_with_both_values(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ROUNDS, seed=7, population={"clients": 10})
    write_run(tmp_path / "b", ROUNDS, seed=8, population={"clients": 10, "cohort": 5})
    found = compare(tmp_path / "a", tmp_path / "b")
    assert [(one.field, one.a, one.b) for one in found.fields] == [
        ("seed", 7, 8),
        ("population.cohort", None, 5),
    ]
    told = json.loads(DiffReport.of(found).json())
    assert told["spec"][1] == {"field": "population.cohort", "a": None, "b": 5}
    assert files_of(found) == {  # the Spec's hash stands in the header, and nowhere else
        name: "different" if name == "trace/trace.toml" else "equal" for name in files_of(found)
    }


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("change", [np.nextafter(0.0, 1.0), -0.0])
def test_the_first_round_of_other_models(tmp_path: Path, number: int, change: float) -> None:
    models = np.zeros((4, P))
    write_run(tmp_path / "a", ROUNDS, models=models)
    models[number, 1] = change
    write_run(tmp_path / "b", ROUNDS, models=models)
    found = compare(tmp_path / "a", tmp_path / "b").models
    assert found is not None
    expected = (0, "parameters") if number == 0 else (number - 1, "aggregate")
    assert (found.round, found.what) == expected


def test_rankers_of_other_sizes_part_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a", ROUNDS)
    monkeypatch.setattr("tests.fixtures.stored_runs.P", P + 1)
    write_run(tmp_path / "b", ROUNDS)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.models is not None
    assert (found.models.round, found.models.what) == (0, "parameters")


def test_metrics_stand_side_by_side(tmp_path: Path) -> None:
    write_run(tmp_path / "a", rounds_of(0.7, [0.1, 0.3]))
    better: list[dict[str, Any]] = rounds_of(0.8, [0.2, 0.3])
    better[-1] = {**better[-1], "maxrr": math.nan, "extra": 1.0}
    write_run(tmp_path / "b", better)
    found = {pair.metric: pair for pair in compare(tmp_path / "a", tmp_path / "b").metrics}
    assert (found["offline_ndcg@10"].a, found["offline_ndcg@10"].b) == (0.7, 0.8)
    assert found["offline_ndcg@10"].difference == pytest.approx(0.1)
    assert found["online_sum"].difference == pytest.approx(0.1)
    assert found["online_mean"].difference == pytest.approx(0.05)
    assert found["online_ndcg@10"].equal
    assert not found["maxrr"].equal
    assert math.isnan(found["extra"].a)
    assert not found["extra"].equal


def test_an_unfinished_run_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ROUNDS)
    write_run(tmp_path / "b", ROUNDS, played=2)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.differs
    assert (found.common_rounds, found.models) == (2, None)
    assert files_of(found)["trace/observed/rounds"] == "different"
    shutil.rmtree(tmp_path / "b" / "trace")
    (tmp_path / "b" / "model.npy").unlink()
    found = compare(tmp_path / "a", tmp_path / "b")
    assert set(files_of(found).values()) == {"only in A"}
    assert "no round that both" in models_line(found)
    assert set(files_of(compare(tmp_path / "b", tmp_path / "a")).values()) == {"only in B"}


def test_a_file_altered_behind_its_marker_is_noticed(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ROUNDS)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    file = tmp_path / "b" / "trace" / "truth" / "clicks-00001.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(TraceError, match="SHA-256 differs"):
        compare(tmp_path / "a", tmp_path / "b")


def test_without_the_truth_there_are_no_metrics_but_all_else(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ROUNDS)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "trace" / "truth")
    found = compare(tmp_path / "a", tmp_path / "b")
    assert all(math.isnan(pair.b) for pair in found.metrics)
    assert found.models is None
    assert files_of(found)["trace/observed/rounds"] == "equal"
    assert files_of(found)["trace/truth/clicks"] == "only in A"
