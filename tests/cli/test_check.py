"""`foltr-audit check` on a new run, a recorded Run and a comparison."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.test_foreign_trace import one_round, written
from tests.fixtures.command import Done, answer, but, files, refusal, run

TINY = ("--data", "synthetic:mq2007:60", "--clients", "20", "--rounds", "2", "--click-model", "perfect")
ONE = (*TINY, "--method", "olsr")
PUBLISHED = "clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("check")


def limits(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def loose(folder: Path) -> Path:
    """Limits that the published chain meets."""
    text = "max_attack_auc = 0.99\nmin_ndcg = 0.05\nmax_ndcg_loss = 0.9\nmax_measured_eps = 2.7\n"
    return limits(folder, "loose", f'{text}view = "aggregate"\n')


@pytest.fixture(scope="module")
def compared(folder: Path, loose: Path) -> tuple[Path, Done]:
    """The comparison that a check with --out left behind, and what the check said."""
    done = run("check", loose, *ONE, "--eps", 1.2, "--trials", 50, "--out", folder / "kept", "--json")
    return folder / "kept", done


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Path:
    """The Run of the same chain, users clicking alike in training and attack."""
    done = run("attack", *ONE, "--eps", 1.2, "--train-click-model", "same", "--out", folder / "run")
    assert done.code == 0
    return folder / "run"


def of_limit(done: Done, name: str) -> dict[str, object]:
    return next(one for one in done.json()["outcomes"] if one["limit"] == name)


def test_limits_that_hold_end_with_0(compared: tuple[Path, Done]) -> None:
    _, done = compared
    assert (done.code, done.said) == (0, "")
    found = done.json()
    assert found["holds"] is True
    assert {one["subject"] for one in found["outcomes"]} == {"published, eps 1.2, perfect clicks"}
    assert any("2 R = 3 in L2" in row["warning"] for row in found["warnings"])


def test_a_kept_check_is_a_comparison_that_says_the_same(
    compared: tuple[Path, Done], loose: Path, tmp_path: Path
) -> None:
    path, done = compared
    assert answer("check", loose, "--comparison", path)["outcomes"] == done.json()["outcomes"]
    before, check = files(path), ("check", loose, *ONE, "--eps", 1.2, "--trials", 50, "--json", "--out")
    for place, more in ((path, ["--resume"]), (tmp_path / "other", [])):
        assert (run(*check, place, *more).out, files(place)) == (done.out, before)


def test_a_trace_of_the_same_run_gives_the_same_numbers(
    compared: tuple[Path, Done], recorded: Path, folder: Path
) -> None:
    text = limits(folder, "traced", "max_attack_auc = 0.99\nmin_ndcg = 0.05")
    traced = run("check", text, "--trace", recorded, "--method", "olsr", "--json")
    assert traced.code == 0
    for name in ("max_attack_auc", "min_ndcg"):
        mine, theirs = of_limit(traced, name), of_limit(compared[1], name)
        assert mine["subject"] == f"{PUBLISHED}, perfect clicks"
        assert (mine["value"], mine["interval"]) == (theirs["value"], theirs["interval"])
        assert mine["interval"] is not None


def test_where_the_leading_intent_changes_the_last_one_counts(folder: Path, tmp_path: Path) -> None:
    """Offline nDCG is under the intents of the last interaction, in a fresh run as in a recorded one."""
    world = but(ONE, "--data", "synthetic:clueweb-intents:60")
    options = (*world, "--scenario", "abrupt", "--learner", "fpdgd", "--eps", 1.2)
    text = limits(folder, "intents", "min_ndcg = 0.01")
    fresh = of_limit(run("check", text, *options, "--json"), "min_ndcg")
    run("attack", *options, "--train-click-model", "same", "--out", tmp_path / "run")
    recorded = of_limit(run("check", text, "--trace", tmp_path / "run", "--json"), "min_ndcg")
    assert fresh["value"] == pytest.approx(recorded["value"], rel=1e-12)
    assert fresh["interval"] == recorded["interval"]


def test_a_broken_limit_ends_with_1_and_is_written_everywhere(
    compared: tuple[Path, Done], folder: Path, tmp_path: Path
) -> None:
    text = limits(folder, "strict", "max_attack_auc = 0.5\nmin_ndcg = 0.01")
    summary, junit = tmp_path / "s.md", tmp_path / "j.xml"
    summary.write_text("before\n")
    check = ("check", text, "--comparison", compared[0], "--format")
    done = run(*check, f"junit={junit}", "--format", f"markdown={summary}")
    assert done.code == 1
    assert done.said.startswith("broken: max_attack_auc: published, eps 1.2, perfect clicks: ")
    assert done.said.count("\n") == 1
    assert done.err.startswith("3 warnings: FA101 FA102 FA103 (--json shows them; ")
    assert "at most .5 allowed; attack olsr" in done.err
    assert "2 limits checked on 1 row: 1 broken" in done.out
    assert ElementTree.parse(junit).getroot().get("failures") == "1"  # noqa: S314  our own text
    assert summary.read_text().startswith("before\n\n### foltr-audit check: ")
    shown = run(*check, "github")
    assert shown.code == 1
    assert shown.out.startswith("::error file=strict.toml,line=1,title=max_attack_auc%3A broken::")
    assert shown.out.endswith("2 limits checked on 1 row: 1 broken\n")


def test_a_limit_without_a_judgement_ends_with_1_and_is_written_too(
    recorded: Path, folder: Path, tmp_path: Path
) -> None:
    text = limits(folder, "audited", "max_proven_eps = 2.0\nmax_ndcg_loss = 0.1\nmin_ndcg = 0.01")
    junit = tmp_path / "j.xml"
    done = run("check", text, "--trace", recorded, "--format", f"junit={junit}")
    assert done.code == 1
    lines = done.said.splitlines()
    begins = [line.split(": ")[:2] for line in lines]
    assert begins == [["not judged", name] for name in ("max_proven_eps", "max_ndcg_loss")]
    assert "a trace holds no audit" in lines[0]
    assert "3 limits checked on 1 row: 2 not judged" in done.out
    as_json = run("check", text, "--trace", recorded, "--json")
    assert (as_json.code, as_json.json()["holds"]) == (1, False)
    assert of_limit(as_json, "max_proven_eps")["status"] == "not judged"
    assert ElementTree.parse(junit).getroot().get("errors") == "2"  # noqa: S314  our own text
    allowed = limits(folder, "allowed", f"{text.read_text()}\nallow_not_judged = true")
    assert run("check", allowed, "--trace", recorded).code == 0
    broken = limits(folder, "both", f"{allowed.read_text()}\nmax_attack_auc = 0.5")
    assert run("check", broken, "--trace", recorded, "--method", "olsr").code == 1


def test_several_epsilons_are_rows_and_all_must_hold(folder: Path) -> None:
    text = limits(folder, "several", 'max_attack_auc = 0.9\nuse = "value"')
    done = run("check", text, *ONE, "--eps", 0.01, "--eps", "inf", "--json")
    found = {one["subject"]: one["status"] for one in done.json()["outcomes"]}
    assert found == {"none, perfect clicks": "broken", "published, eps 0.01, perfect clicks": "holds"}
    assert done.code == 1


def test_a_saved_plan_is_the_same_check(folder: Path, tmp_path: Path) -> None:
    text = limits(folder, "saved", "max_attack_auc = 0.9")
    chain = ("--defense", "clip:norm=1+laplace:eps=1e20,sensitivity=2 + none")
    first = run("check --runs 2 --json", text, *TINY, *chain, "--save-config", tmp_path / "plan.toml").json()
    again = run("check", text, "--config", tmp_path / "plan.toml", "--json").json()
    assert first["config"]["runs"] == 2
    assert [one["value"] for one in first["outcomes"]] == [one["value"] for one in again["outcomes"]]
    assert "methods" not in tomllib.loads((tmp_path / "plan.toml").read_text())["attack"]
    assert first["outcomes"][0]["attacks"] == again["outcomes"][0]["attacks"] == ["olsr", "lad", "map"]


LEAK = (
    "--data", "synthetic:mq2007:60", "--click-model", "informational", "--clients", 10, "--eps", 1.2,
    "--rounds", 2,
)  # fmt: skip


@pytest.mark.parametrize("method", [(), ("--method", "olsr")])
def test_a_config_of_attack_does_not_make_the_gate_weaker(
    folder: Path, tmp_path: Path, method: tuple[str, ...]
) -> None:
    """`attack` may have been run with one weak attack; the gate tries the strong ones all the same."""
    text, spec = limits(folder, "leak", "max_attack_auc = 0.75"), tmp_path / "spec.toml"
    assert run("attack", *LEAK, *method, "--save-config", spec, "--json").code == 0
    done = run("check", text, "--config", spec, "--json")
    assert done.code == 1
    (told,) = done.json()["outcomes"]
    assert set(told["attacks"]) == {"olsr", "lad", "map"}
    assert told["value"] > 0.9
    assert "with the highest upper bound of olsr, lad and map" in told["about"]


def test_a_gate_by_one_weak_attack_says_so(folder: Path) -> None:
    text = limits(folder, "weak", "max_attack_auc = 0.99")
    done = run("check", text, *LEAK, "--method", "olsr", "--json")
    (told,) = done.json()["outcomes"]
    assert told["about"].startswith("attack olsr, the only one that ran")
    (warning,) = [row["warning"] for row in done.json()["warnings"] if "max_attack_auc" in row["warning"]]
    assert "not judged by lad or map, which were not tried" in warning


def test_only_what_a_limit_needs_is_run(folder: Path, tmp_path: Path) -> None:
    text = limits(folder, "few", "max_attack_auc = 0.9")
    run("check", text, *ONE, "--eps", 1.2, "--out", tmp_path / "out")
    index = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [(cell["kind"], cell["alternative"]) for cell in index["cells"]] == [("attack", "published")]


def test_a_config_whose_cells_are_no_grid_is_refused(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "plan.toml"
    cells = "".join(f"[[cells]]\npopulation = {{clients = {count}}}\n" for count in (5, 6))
    config.write_text(f'[data]\nsource = "synthetic:mq2007:60"\n{cells}')
    text = limits(folder, "grid", "min_ndcg = 0.1")
    assert "population.clients" in run("check", text, "--config", config).one_error()


def test_rows_that_a_comparison_does_not_have(compared: tuple[Path, Done], loose: Path) -> None:
    check = ("check", loose, "--comparison", compared[0])
    assert "did you mean 'published'" in refusal(*check, "--defense", "publish")
    assert "3 is not an epsilon of this comparison" in refusal(*check, "--eps", 3)


def test_the_training_without_a_defense_is_judged_only_by_name(
    compared: tuple[Path, Done], folder: Path
) -> None:
    text = limits(folder, "base", "max_ndcg_loss = 0.0\nmax_attack_auc = 0.6")
    done = run("check", text, "--comparison", compared[0], "--defense", "none", "--json")
    assert {one["subject"] for one in done.json()["outcomes"]} == {"none, perfect clicks"}
    assert of_limit(done, "max_ndcg_loss")["status"] == "holds"
    assert of_limit(done, "max_attack_auc")["status"] == "broken"


def test_a_trace_of_another_system(folder: Path, tmp_path: Path) -> None:
    record, truth = one_round()
    blind = written(tmp_path / "blind", record, None)
    live = written(tmp_path / "live", record, truth)
    auc = limits(folder, "auc", "max_attack_auc = 0.9")
    ndcg = limits(folder, "metrics", "min_ndcg = 0.1")
    assert "holds no truth" in run("check", auc, "--trace", blind).err
    assert "holds no metrics" in run("check", ndcg, "--trace", blind).err
    assert "holds no metrics" in run("check", ndcg, "--trace", live).err
    two = ("--method", "first-position", "--method", "map")
    unable = run("check", auc, "--trace", live, *two)
    assert unable.code == 1
    assert "unknown defense, recorded clicks: no attack on clicks could run: map" in unable.err
    both = run("check", auc, "--trace", live, "--method", "olsr", "--method", "map")
    assert (both.code, both.said.startswith("broken: max_attack_auc: ")) == (1, True)
    some = run("check", auc, "--trace", live, "--method", "all", "--json")
    assert some.code == 1
    assert any("map could not run" in row["warning"] for row in some.json()["warnings"])


def test_an_unfinished_run_and_a_damaged_comparison(
    compared: tuple[Path, Done], recorded: Path, loose: Path, folder: Path, tmp_path: Path
) -> None:
    text = limits(folder, "ndcg", "min_ndcg = 0.1")
    half = Path(shutil.copytree(recorded, tmp_path / "half"))
    (half / "model.npy").unlink()
    assert "only a finished Run" in run("check", text, "--trace", half).err
    alone = limits(folder, "value", 'min_ndcg = 0.01\nuse = "value"')
    assert run("check", alone, "--trace", half).code == 0
    torn = Path(shutil.copytree(compared[0], tmp_path / "torn"))
    cell = sorted(torn.glob("cells/*/arrays.npz"))[0]
    cell.write_bytes(cell.read_bytes()[:-9])
    assert "damaged" in refusal("check", loose, "--comparison", torn, code=3)
