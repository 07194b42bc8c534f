from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import names, plugin_class
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.comparison import runner
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.runs.folder import RunFolder
from foltr_audit.trace import TraceHeader
from tests.fixtures.command import SMALL, answer, but, files, refusal, run

INTERVALS = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "exact", "auc")


def test_rows_lie_in_their_intervals_and_have_every_method_and_click_model() -> None:
    report = answer("attack --eps 1.2", *SMALL)
    assert {row["pdgd"] for row in report["utility"]} == {"pham-2022"}
    for row in report["results"]:
        for name in INTERVALS:
            if name == "precision" and row["precision_undefined"] == row["lists"]:
                assert row["precision"] is row["precision_ci95"] is None, "it never names anything"
                continue
            low, high = row[f"{name}_ci95"]
            assert low - 1e-12 <= row[name] <= high + 1e-12  # sums in another order
        assert row["view"] == "individual"
        assert row["lists"] + row["skipped"] <= 24
    guesses = {
        "random:k=3", "random:k=4", "random:k=mean", "first-position", "position-prior", "relevance-prior",
    }  # fmt: skip
    assert {row["method"] for row in report["results"]} == guesses | {"olsr", "lad", "map"}
    assert {row["click_model"] for row in report["results"]} == {"perfect", "navigational", "informational"}


def test_all_methods_and_several_epsilons_make_a_row_each() -> None:
    report = answer("attack --method all --eps 1.2 --eps inf --click-model perfect", *SMALL)
    rows = report["results"]
    assert {row["eps_claimed"] for row in rows} == {1.2, "inf"}
    attacks = [plugin_class(Attack, name) for name in names(Attack)]
    asked = {attack.name for attack in attacks if attack.asks == "clicks" and "model" in attack.reads}
    asked.remove("shown-lists")  # a message has one list here
    assert {row["method"] for row in report["refused"]} >= {"shown-lists"}
    assert {row["sees"] for row in rows} == {"message and lists"}
    methods = [row["method"] for row in rows]
    assert sorted(methods) == sorted(2 * [*asked, "random:k=3", "random:k=4", "random:k=mean"])
    undefended = report["utility"][1]
    assert undefended["ndcg@10"] == undefended["ndcg@10_undefended"]


def test_adding_a_method_leaves_the_others_as_they_were() -> None:
    alone = answer("attack --eps 1.2 --method olsr", *SMALL)["results"]
    both = answer("attack --eps 1.2 --method max-gain --method olsr", *SMALL)["results"]
    assert [row for row in both if row["method"] != "max-gain"] == alone


def test_target_training_scores_every_interaction() -> None:
    rows = answer("attack --eps 1.2 --target training", *SMALL)["results"]
    assert {row["click_model"] for row in rows} == {"perfect"}
    assert all(row["lists"] + row["skipped"] == 40 * 3 * 4 for row in rows)


def test_same_trains_under_each_attacked_model() -> None:
    report = answer("attack --eps 1.2 --train-click-model same --method olsr", *SMALL)
    assert [row["trained_on"] for row in report["utility"]] == ["perfect", "navigational", "informational"]
    assert all(row["trained_on"] == row["click_model"] for row in report["results"])


def test_a_saved_config_repeats_the_run_and_options_override_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    asked = "attack --eps 1.2 --eps 4.5 --click-model perfect --runs 2 --json --save-config"
    first = run(asked, path, *SMALL)
    again = run("attack", "--config", path, "--json")
    assert again.out == first.out
    changed = run("attack", "--config", path, "--rounds", 1, "--eps", "inf", "--json").json()
    assert changed["config"]["train"]["rounds"] == 1
    assert changed["config"]["defense"] == ["none"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    assert run("attack", *SMALL, "--eps", 1.2, "--out", folder).code == 0
    return folder


@pytest.fixture
def copied(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "copied"))


def test_a_recorded_run_gives_the_same_results(recorded: Path) -> None:
    fresh, again = json.loads((recorded / "results.json").read_text()), answer("attack --trace", recorded)
    assert again["results"] == fresh["results"]
    assert again["utility"][0]["ndcg@10"] == fresh["utility"][0]["ndcg@10"]
    assert again["utility"][0]["ndcg@10_undefended"] is None
    assert "nDCG@10" in run("attack --trace", recorded).out


def test_the_training_messages_of_a_run_and_a_bare_trace_are_attacked_alike(recorded: Path) -> None:
    of_run = run("attack", "--trace", recorded, "--target", "training", "--json").json()["results"]
    bare = run("attack", "--trace", recorded / "trace", "--json").json()["results"]
    assert [row["auc"] for row in bare] == [row["auc"] for row in of_run]


def test_embedded_features_need_no_data_set(tmp_path: Path) -> None:
    plain, embedded = tmp_path / "plain", tmp_path / "embedded"
    run("attack", *SMALL, "--eps", 1.2, "--out", plain)
    run("attack", *SMALL, "--eps", 1.2, "--embed-features", "--out", embedded)
    expected = run("attack", "--trace", plain, "--json").json()["results"]
    found = run("attack", "--trace", embedded, "--json").json()["results"]
    of_the_data = {"position-prior", "relevance-prior"}  # embedded features come without relevance
    assert of_the_data < {row["method"] for row in expected}
    kept = [row["accuracy"] for row in expected if row["method"] not in of_the_data]
    assert [row["accuracy"] for row in found] == kept
    shown = run("attack", "--trace", embedded)
    assert shown.code == 0
    assert "synthetic" in shown.out


def test_without_truth_guesses_are_written_and_scoring_is_refused(copied: Path) -> None:
    for truth in copied.rglob("truth"):
        shutil.rmtree(truth)
    assert "--guesses" in refusal("attack", "--trace", copied)
    path = copied.parent / "guesses.csv"
    written = run("attack", "--trace", copied, "--guesses", path)
    assert written.code == 0
    assert "nothing was scored" in written.err
    head = path.read_text().splitlines()[0]
    assert head == "click_model,method,round,slot,step,query,rank,document,score,guess"


def test_guesses_are_those_that_are_scored(recorded: Path, tmp_path: Path) -> None:
    import polars as pl

    path = tmp_path / "guesses.parquet"
    assert run("attack", "--trace", recorded, "--guesses", path, "--json").code == 0
    frame = pl.read_parquet(path).filter(method="olsr", click_model="informational")
    named = frame.group_by("slot").agg(pl.col("guess").sum()).filter(pl.col("guess") == 0).height
    results = json.loads((recorded / "results.json").read_text())["results"]
    row = next(row for row in results if (row["method"], row["click_model"]) == ("olsr", "informational"))
    assert named >= row["precision_undefined"]
    assert frame["slot"].n_unique() == row["lists"] + row["skipped"]
    assert run("attack", "--trace", recorded, "--guesses", tmp_path / "guesses.txt").code == 2


def test_info_looks_at_every_trace_of_a_run(recorded: Path) -> None:
    facts = run("trace", "info", recorded, "--json").json()["traces"]
    assert sorted(Path(path).name for path in facts) == ["informational", "navigational", "perfect", "trace"]
    assert "writer" in run("trace", "info", recorded).out  # it names the code, so no golden file has it


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def newer(run: Path) -> None:
    for header in run.rglob("trace.toml"):
        change(header, "foltr-audit/trace/1", "foltr-audit/trace/2")


def truncated(run: Path) -> None:
    part = run / "fresh/perfect/observed/messages-00000.npz"
    part.write_bytes(part.read_bytes()[:-10])


def swapped(run: Path) -> None:
    one, other = (run / f"fresh/{name}/observed/messages-00000.npz" for name in ("perfect", "navigational"))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "attacked", "validated"),
    [
        (newer, "newer", True),
        (truncated, "messages-00000.npz", True),
        (swapped, "messages-00000.npz", True),
        (lambda run: shutil.rmtree(run / "fresh" / "perfect"), "--target training", False),
        (lambda run: change(run / "spec.toml", "seed = 1", "seed = 7"), "", True),
        (lambda run: (run / "spec.toml").write_text(""), "", True),
    ],
)
def test_damage_is_found(
    copied: Path, damage: Callable[[Path], object], attacked: str, validated: bool
) -> None:
    damage(copied)
    if attacked:
        assert attacked in refusal("attack --trace", copied, code=3)
    checked = run("trace validate --json", copied)
    assert (checked.code, checked.json()["valid"]) == ((3, False) if validated else (0, True))


def test_a_folder_with_something_in_it_is_kept(copied: Path) -> None:
    before = files(copied)
    attack = ("attack", *SMALL, "--out", copied)
    assert "--resume" in refusal(*attack, "--eps", 1.2)
    assert "defense" in refusal(*attack, "--eps", 3, "--resume")
    assert files(copied) == before
    (copied / "mine.txt").write_text("dear")
    assert "mine.txt" in refusal(*attack, "--eps", 3, "--overwrite")
    assert files(copied) == before | {"mine.txt": b"dear"}
    (copied / "mine.txt").rename(copied.parent / "mine.txt")
    assert refusal("attack", *SMALL, "--out", copied.parent)
    assert (copied.parent / "mine.txt").read_text() == "dear"


def test_overwrite_replaces_a_run(copied: Path) -> None:
    assert run("attack --eps 3 --overwrite --out", copied, *but(SMALL, "--rounds", 1)).code == 0
    assert "eps=3" in (copied / "spec.toml").read_text()
    assert run("trace", "validate", copied).code == 0


def test_a_folder_that_another_run_holds_is_refused(tmp_path: Path) -> None:
    from foltr_audit.experiments.runs.folder import lock_folder

    with lock_folder(tmp_path):
        done = run("attack", *SMALL, "--out", tmp_path)
    assert done.code == 2
    assert "another run" in done.one_error()


@pytest.mark.parametrize("command", ["train", "attack --eps 1.2 --method olsr", "compare --eps 1.2 --jobs 1"])
def test_a_folder_that_is_removed_meanwhile_is_an_error(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, signed, run_cell = tmp_path / "out", RunFolder.signed, runner.run_cell

    def removed(folder: RunFolder, header: TraceHeader) -> TraceHeader:
        header = signed(folder, header)
        shutil.rmtree(path)
        return header

    def removed_cell(spec: Spec, study: Runner) -> dict[str, bytes]:
        shutil.rmtree(path)
        return run_cell(spec, study)

    monkeypatch.setattr(RunFolder, "signed", removed)
    monkeypatch.setattr(runner, "run_cell", removed_cell)
    done = run(command, *SMALL, "--out", path)
    assert done.code in (1, 3)
    assert str(path) in done.one_error()


def test_overwrite_replaces_only_what_a_run_is_made_of(copied: Path) -> None:
    (copied / "trace" / "keep.txt").write_text("dear")
    assert "trace/keep.txt" in refusal("attack", *SMALL, "--out", copied, "--overwrite")
    assert (copied / "trace" / "trace.toml").exists()
    (copied / "trace" / "keep.txt").unlink()
    (copied / "spec.toml").write_text("mine = 1")
    assert run("attack", *SMALL, "--out", copied, "--overwrite").code == 3
    assert (copied / "spec.toml").read_text() == "mine = 1"


def test_a_config_without_learner_keeps_the_default_of_attack(tmp_path: Path) -> None:
    path = tmp_path / "seed.toml"
    path.write_text("seed = 3")
    for more in ((), ("--interactions", 2)):
        report = answer("attack --click-model perfect --method olsr", *SMALL, "--config", path, *more)
        assert {row["pdgd"] for row in report["utility"]} == {"pham-2022"}


def test_written_synthetic_data_still_say_synthetic(tmp_path: Path) -> None:
    made = tmp_path / "made"
    run("data synth --queries 30 --out", made)
    done = run("train --clients 10 --rounds 1 --data", made)
    assert (done.code, "synthetic data" in done.out) == (0, True)


def test_a_picture_over_epsilons_is_the_same_again_and_of_a_trace(tmp_path: Path) -> None:
    few = (*SMALL, "--click-model", "perfect")
    options = ("attack --eps 1.2 --eps inf --method olsr", *few, "--out", tmp_path / "run")
    pictures = [tmp_path / f"olsr.{suffix}" for suffix in ("svg", "png", "pdf")]
    assert run(*options, *(part for picture in pictures for part in ("--plot", picture))).code == 0
    assert all(picture.stat().st_size > 1000 for picture in pictures)
    again, of_trace = tmp_path / "again.svg", tmp_path / "trace.svg"
    assert run(*options, "--resume", "--plot", again).code == 0
    assert again.read_bytes() == pictures[0].read_bytes()
    traced = sorted(path.parent for path in (tmp_path / "run").rglob("model.npy"))[0]
    assert run("attack --method olsr --trace", traced, "--plot", of_trace).code == 0
    assert "<svg" in of_trace.read_text()


def test_a_picture_without_a_known_ending_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for given in ((*SMALL, "--out", tmp_path / "run"), ("--trace", tmp_path / "none")):
        assert "expected a name ending in .svg" in refusal("attack --plot x.gif", *given)
    assert not list(tmp_path.iterdir())
