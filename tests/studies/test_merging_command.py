"""`foltr-audit study merge`: tables, JSON, a folder with pictures, and one clear line for what cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fixtures.command import files, refusal, run
from tests.fixtures.merging_data import CATEGORY, write_topical
from tests.fixtures.schemas import agrees_with_published

MERGE = "study merge --trials 1 --trees 3"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The options that name small data."""
    folder = write_topical(tmp_path_factory.mktemp("topical"))
    return ("--data", str(folder), "--category-feature", str(CATEGORY))


def test_json_is_one_object_and_a_folder_holds_it_with_pictures(
    data: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run(f"{MERGE} --split 2 --json", *data, "--out", out)
    agrees_with_published(done.json())
    assert (done.code, done.said) == (0, f"wrote {out}\n")
    found = done.json()
    assert found["config"]["splits"] == [2]
    assert sorted(files(out)) == ["categories.svg", "importances.svg", "results.json"]
    assert files(out)["results.json"].decode() == done.out
    again = tmp_path / "again"
    assert run(f"{MERGE} --split 2", *data, "--out", again).code == 0
    assert files(again) == files(out)
    assert b"<svg" in files(out)["categories.svg"]


def test_a_folder_is_replaced_only_if_asked(data: tuple[str, ...], tmp_path: Path) -> None:
    asked = (f"{MERGE} --split 2", *data, "--out", tmp_path)
    assert run(*asked).code == 0
    assert "is not empty; give --overwrite" in run(*asked).one_error()
    assert run(*asked, "--overwrite", "--picture", "png").code == 0
    assert sorted(files(tmp_path)) == ["categories.png", "importances.png", "results.json"]
    (tmp_path / "mine.txt").write_text("")
    error = run(*asked, "--overwrite").one_error()
    assert "holds 'mine.txt', which is not a file of a merging study" in error


@pytest.mark.parametrize("package", ["lightgbm", "optuna"])
def test_without_the_extra_models_are_of_scikit_learn(
    package: str, data: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = run(f"{MERGE} --split 2 --json", *data)
    assert "regression trees" in done.json()["trainer"]
    assert f"the package {package} is not installed; pip install 'foltr-audit[merge]'" in done.err
    monkeypatch.undo()
    assert "LambdaMART" in run(f"{MERGE} --split 2 --json", *data).json()["trainer"]


def test_a_column_that_is_no_category_and_a_category_that_is_not_there(data: tuple[str, ...]) -> None:
    error = refusal(f"{MERGE} --category-feature 1", *data[:2])
    assert "expected a whole number, the category" in error
    error = run(f"{MERGE} --category 4", *data).one_error()
    assert "--category: 4; no document has it (known: 3, 5, 8)" in error
    asked = (f"{MERGE} --split 3 --category 3 --category 5 --category 8", *data)
    assert "--split: 3; expected 1 or 2 with more than two of --category" in run(*asked).one_error()


def test_topics_without_a_category(data: tuple[str, ...]) -> None:
    found = run(f"{MERGE} --split 2 --topics quantiles:3 --category-feature 1 --json", *data[:2]).json()
    assert (found["dataset"]["topics"], found["dataset"]["category_feature"]) == ("quantiles:3", 1)
    found = run(f"{MERGE} --split 2 --topics kmeans:3 --json", *data[:2]).json()
    assert (found["dataset"]["topics"], found["dataset"]["category_feature"]) == ("kmeans:3", None)
    assert {row["category"] for row in found["histogram"]} == {1, 2, 3}
    assert "--topics: 'kmeans': expected" in refusal(f"{MERGE} --topics kmeans", *data[:2])
    error = refusal(f"{MERGE} --topics kmeans:3", *data)
    assert "--category-feature: not with --topics kmeans:3" in error


def test_ctrl_c_is_one_line_and_writes_nothing(
    data: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("foltr_audit.studies.model_merging.trainers.LambdaMARTTrainer.train", interrupted)
    error = refusal(MERGE, *data, "--out", tmp_path / "out", code=130)
    assert error == "error: interrupted; nothing was written"
    assert files(tmp_path / "out") == {}
