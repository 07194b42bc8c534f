from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import names, plugin_class
from tests.fixtures.command import SMALL, files, run

ROW = {
    "method", "click_model", "eps_claimed", "view", "lists", "skipped", "clipped", "accuracy",
    "balanced_accuracy", "precision", "precision_undefined", "recall", "f1", "exact", "auc",
}  # fmt: skip
INTERVALS = ("accuracy", "balanced_accuracy", "precision", "recall", "f1", "exact", "auc")


def _refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_json_is_one_object_with_every_field() -> None:
    done = run("attack", *SMALL, "--eps", 1.2, "--json")
    assert done.code == 0
    assert done.said == ""
    report = json.loads(done.out, parse_constant=_refuse_constant)
    assert report["schema"] == "foltr-audit/attack/1"
    assert {"config", "dataset", "utility", "results"} <= set(report)
    for row in report["utility"]:
        assert {"trained_on", "eps_claimed", "ndcg@10", "ndcg@10_undefended"} <= set(row)
        assert row["pdgd"] == "pham-2022"
    for row in report["results"]:
        assert set(row) >= ROW
        for name in INTERVALS:
            if name == "precision" and row["precision_undefined"] == row["lists"]:
                assert row["precision"] is row["precision_ci95"] is None, "it never names anything"
                continue
            low, high = row[f"{name}_ci95"]
            assert low - 1e-12 <= row[name] <= high + 1e-12  # sums in another order
        assert row["view"] == "individual"
        assert row["lists"] + row["skipped"] <= 24
    methods = {row["method"] for row in report["results"]}
    priors = {"position-prior", "relevance-prior"}
    attacks = {"olsr", "lad", "map"}
    assert methods == {"random:k=3", "random:k=4", "random:k=mean", "first-position"} | attacks | priors
    assert {row["click_model"] for row in report["results"]} == {"perfect", "navigational", "informational"}


def test_all_methods_and_several_epsilons_make_a_row_each() -> None:
    done = run(
        "attack",
        *SMALL,
        "--method",
        "all",
        "--eps",
        1.2,
        "--eps",
        "inf",
        "--click-model",
        "perfect",
        "--json",
    )
    rows = done.json()["results"]
    assert {row["eps_claimed"] for row in rows} == {1.2, "inf"}
    attacks = [plugin_class(Attack, name) for name in names(Attack)]
    asked = {attack.name for attack in attacks if attack.asks == "clicks" and "model" in attack.reads}
    asked.remove("shown-lists")  # a message has one list here
    assert {row["method"] for row in done.json()["refused"]} >= {"shown-lists"}
    assert {row["sees"] for row in rows} == {"message and lists"}
    methods = [row["method"] for row in rows]
    assert sorted(methods) == sorted(2 * [*asked, "random:k=3", "random:k=4", "random:k=mean"])
    undefended = done.json()["utility"][1]
    assert undefended["ndcg@10"] == undefended["ndcg@10_undefended"]


def test_adding_a_method_leaves_the_others_as_they_were() -> None:
    alone = run("attack", *SMALL, "--eps", 1.2, "--method", "olsr", "--json").json()["results"]
    both = run("attack", *SMALL, "--eps", 1.2, "--method", "max-gain", "--method", "olsr", "--json").json()[
        "results"
    ]
    assert [row for row in both if row["method"] != "max-gain"] == alone


def test_target_training_scores_every_interaction() -> None:
    done = run("attack", *SMALL, "--eps", 1.2, "--target", "training", "--json")
    rows = done.json()["results"]
    assert {row["click_model"] for row in rows} == {"perfect"}
    assert all(row["lists"] + row["skipped"] == 40 * 3 * 4 for row in rows)


def test_same_trains_under_each_attacked_model() -> None:
    done = run("attack", *SMALL, "--eps", 1.2, "--train-click-model", "same", "--json")
    report = done.json()
    assert [row["trained_on"] for row in report["utility"]] == ["perfect", "navigational", "informational"]
    assert all(row["trained_on"] == row["click_model"] for row in report["results"])


def test_a_saved_config_repeats_the_run_and_options_override_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    options = ("--eps", 1.2, "--eps", 4.5, "--click-model", "perfect", "--runs", 2)
    first = run("attack", *SMALL, *options, "--save-config", path, "--json")
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
    fresh = json.loads((recorded / "results.json").read_text())
    again = run("attack", "--trace", recorded, "--json").json()
    key = ("click_model", "method")
    expected = {tuple(row[name] for name in key): row for row in fresh["results"]}
    for row in again["results"]:
        wanted = expected[tuple(row[name] for name in key)]
        assert {name: row[name] for name in ROW} == {name: wanted[name] for name in ROW}
    assert len(again["results"]) == len(fresh["results"])


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
    refused = run("attack", "--trace", copied)
    assert refused.code == 2
    assert "--guesses" in refused.one_error()
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


def test_another_data_set_than_the_trace_s_is_refused(recorded: Path) -> None:
    done = run("attack", "--trace", recorded, "--data", "synthetic:mq2007:61")
    assert done.code == 3
    assert "fingerprint" in done.one_error()


def test_options_that_a_trace_cannot_have_are_refused(recorded: Path) -> None:
    done = run("attack", "--trace", recorded, "--eps", 3)
    assert done.code == 2
    assert "--eps: not with --trace" in done.one_error()


def test_a_newer_trace_is_refused(copied: Path) -> None:
    for header in copied.rglob("trace.toml"):
        header.write_text(header.read_text().replace("foltr-audit/trace/1", "foltr-audit/trace/2"))
    done = run("attack", "--trace", copied)
    assert done.code == 3
    assert "newer" in done.one_error()
    assert run("trace", "validate", copied).code == 3


def test_a_truncated_part_is_found(copied: Path) -> None:
    part = next((copied / "fresh" / "perfect").rglob("messages-*.npz"))
    part.write_bytes(part.read_bytes()[:-10])
    done = run("attack", "--trace", copied)
    assert done.code == 3
    assert part.name in done.one_error()
    assert run("trace", "validate", copied, "--json").json()["valid"] is False


def test_parts_swapped_between_traces_are_found(copied: Path) -> None:
    one = copied / "fresh" / "perfect" / "observed" / "messages-00000.npz"
    other = copied / "fresh" / "navigational" / "observed" / "messages-00000.npz"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    done = run("attack", "--trace", copied)
    assert done.code == 3
    assert "messages-00000.npz" in done.one_error()


def test_info_and_validate_look_at_every_trace_of_a_run(recorded: Path) -> None:
    facts = run("trace", "info", recorded, "--json").json()["traces"]
    assert sorted(Path(path).name for path in facts) == ["informational", "navigational", "perfect", "trace"]
    assert run("trace", "info", recorded).code == 0
    checked = run("trace", "validate", recorded)
    assert checked.code == 0
    assert [line.rsplit(": ")[-1] for line in checked.out.splitlines()] == ["valid"] * 5  # and the Spec
    nothing = run("trace", "info", recorded.parent)
    assert nothing.code == 2
    assert "run" in nothing.one_error()


def test_a_folder_with_something_in_it_is_kept(copied: Path) -> None:
    before = files(copied)
    refused = run("attack", *SMALL, "--eps", 1.2, "--out", copied)
    assert refused.code == 2
    assert "--resume" in refused.one_error()
    other = run("attack", *SMALL, "--eps", 3, "--out", copied, "--resume")
    assert other.code == 2
    assert "defense" in other.one_error()
    assert files(copied) == before
    (copied / "mine.txt").write_text("dear")
    strange = run("attack", *SMALL, "--eps", 3, "--out", copied, "--overwrite")
    assert strange.code == 2
    assert "mine.txt" in strange.one_error()
    assert files(copied) == before | {"mine.txt": b"dear"}


def test_overwrite_replaces_a_run(copied: Path) -> None:
    assert run("attack", *SMALL, "--eps", 3, "--rounds", 1, "--out", copied, "--overwrite").code == 0
    assert "eps=3" in (copied / "spec.toml").read_text()
    assert run("trace", "validate", copied).code == 0


def test_a_folder_that_another_run_holds_is_refused(tmp_path: Path) -> None:
    from foltr_audit.experiments.runs.folder import lock_folder

    with lock_folder(tmp_path):
        done = run("attack", *SMALL, "--out", tmp_path)
    assert done.code == 2
    assert "another run" in done.one_error()


def test_overwrite_replaces_only_what_a_run_is_made_of(copied: Path) -> None:
    (copied / "trace" / "keep.txt").write_text("dear")
    done = run("attack", *SMALL, "--out", copied, "--overwrite")
    assert done.code == 2
    assert "trace/keep.txt" in done.one_error()
    assert (copied / "trace" / "trace.toml").exists()
    (copied / "trace" / "keep.txt").unlink()
    (copied / "spec.toml").write_text("mine = 1")
    assert run("attack", *SMALL, "--out", copied, "--overwrite").code == 3
    assert (copied / "spec.toml").read_text() == "mine = 1"


def test_a_refused_folder_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("dear")
    assert run("attack", *SMALL, "--out", tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_lost_fresh_trace_is_not_replaced_by_the_training_rounds(copied: Path) -> None:
    shutil.rmtree(copied / "fresh" / "perfect")
    done = run("attack", "--trace", copied)
    assert done.code == 3
    assert "--target training" in done.one_error()
    assert run("attack", "--trace", copied, "--target", "training").code == 0


def test_a_changed_spec_is_found(copied: Path) -> None:
    spec = copied / "spec.toml"
    spec.write_text(spec.read_text().replace("seed = 1", "seed = 7"))
    done = run("trace", "validate", copied)
    assert done.code == 3
    assert "another Spec" in done.err
    spec.write_text("")
    assert run("trace", "validate", copied).code == 3


def test_guesses_never_replace_a_file(copied: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("dear")
    done = run("attack", "--trace", copied, "--guesses", path)
    assert done.code == 2
    assert "exists; expected the name of a new file" in done.one_error()
    assert path.read_text() == "dear"


def test_a_config_without_learner_keeps_the_default_of_attack(tmp_path: Path) -> None:
    path = tmp_path / "seed.toml"
    path.write_text("seed = 3")
    report = run("attack", *SMALL, "--config", path, "--click-model", "perfect", "--json").json()
    assert {row["pdgd"] for row in report["utility"]} == {"pham-2022"}
    changed = run(
        "attack", *SMALL, "--config", path, "--interactions", 2, "--click-model", "perfect", "--json"
    ).json()
    assert {row["pdgd"] for row in changed["utility"]} == {"pham-2022"}


def test_written_synthetic_data_still_say_synthetic(tmp_path: Path) -> None:
    made = tmp_path / "made"
    run("data", "synth", "--queries", 30, "--out", made)
    done = run("attack", "--data", made, "--clients", 10, "--rounds", 1, "--click-model", "perfect")
    assert done.code == 0
    assert "synthetic data" in done.out


def test_a_recorded_run_tells_its_utility(recorded: Path) -> None:
    fresh = json.loads((recorded / "results.json").read_text())["utility"][0]
    again = run("attack", "--trace", recorded, "--json").json()["utility"][0]
    assert again["ndcg@10"] == fresh["ndcg@10"]
    assert again["ndcg@10_undefended"] is None
    assert "nDCG@10" in run("attack", "--trace", recorded).out


def test_trace_commands_look_at_every_run_of_a_plan(tmp_path: Path) -> None:
    options = ("--click-model", "perfect", "--rounds", 1, "--eps", 1.2, "--eps", 3)
    assert run("attack", *SMALL, *options, "--out", tmp_path / "plan").code == 0
    checked = run("trace", "validate", tmp_path / "plan")
    assert checked.code == 0
    assert len(checked.out.splitlines()) == 2 * 3  # training rounds, fresh clients and Spec of each
    assert len(run("trace", "info", tmp_path / "plan", "--json").json()["traces"]) == 4
    named = run("attack", "--trace", tmp_path / "plan")
    assert named.code == 2
    assert "name one of them" in named.one_error()
