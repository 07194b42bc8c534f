"""`foltr-audit check` on a new run, a recorded Run and a comparison."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from foltr_audit.recorder import atomic_files

from tests.cli.test_foreign_trace import one_round, written
from tests.fixtures.command import Done, answer, but, files, refusal, run

TINY = ("--data", "synthetic:mq2007:60", "--clients", "20", "--rounds", "2", "--click-model", "perfect")
ONE = (*TINY, "--method", "olsr")
LAPLACE = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
SHARES = "clip:norm=1.5+gaussian-shares:sigma=30"  # a twentieth of the noise on a message proves epsilon 1.76
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


def test_forms_are_written_into_files(compared: tuple[Path, Done], folder: Path, tmp_path: Path) -> None:
    """Markdown below what a file holds; the other forms are in `tests/golden/checks.console`."""
    text = limits(folder, "strict", "max_attack_auc = 0.5\nmin_ndcg = 0.01")
    summary, junit = tmp_path / "s.md", tmp_path / "j.xml"
    summary.write_text("before\n")
    given = ("--format", f"junit={junit}", "--format", f"markdown={summary}")
    assert run("check", text, "--comparison", compared[0], *given).code == 1
    assert ElementTree.parse(junit).getroot().get("failures") == "1"  # noqa: S314  our own text
    assert summary.read_text().startswith("before\n\n### foltr-audit check: ")


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


def test_only_what_a_limit_needs_is_run(folder: Path, tmp_path: Path) -> None:
    text = limits(folder, "few", "max_attack_auc = 0.9")
    run("check", text, *ONE, "--eps", 1.2, "--out", tmp_path / "out")
    index = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [(cell["kind"], cell["alternative"]) for cell in index["cells"]] == [("attack", "published")]


def test_a_trace_of_another_system(folder: Path, tmp_path: Path) -> None:
    record, truth = one_round()
    blind = written(tmp_path / "blind", record, None)
    live = written(tmp_path / "live", record, truth)
    auc = limits(folder, "auc", "max_attack_auc = 0.9")
    ndcg = limits(folder, "metrics", "min_ndcg = 0.1")
    assert "holds no truth" in run("check", auc, "--trace", blind).err
    assert "holds no metrics" in run("check", ndcg, "--trace", blind).err
    assert "holds no metrics" in run("check", ndcg, "--trace", live).err
    promised = limits(folder, "promised", "max_ceiling_auc = 0.6")
    assert "the trace holds no Spec" in run("check", promised, "--trace", live).err
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


@pytest.mark.parametrize(
    ("chain", "more", "status"),
    [
        (LAPLACE, "", "holds"),
        (SHARES, "", "not judged"),
        (SHARES, 'view = "aggregate"\n', "holds"),
    ],
)
@pytest.mark.usefixtures("laws_as_declared")
def test_a_part_of_the_noise_is_no_proof_of_single_messages(
    chain: str, more: str, status: str, tmp_path: Path
) -> None:
    """Of a new run, the comparison that it leaves behind, and a recorded Run alike."""
    defended = ("--rank-with", "global", "--defense", chain)
    text = limits(tmp_path, "promised", f"max_ceiling_auc = 0.9\n{more}")
    assert run("attack", *ONE, *defended, "--out", tmp_path / "run").code == 0
    fresh = run("check", text, *ONE, *defended, "--trials", 20, "--out", tmp_path / "kept", "--json")
    kept = run("check", text, "--comparison", tmp_path / "kept", "--json")
    traced = run("check", text, "--trace", tmp_path / "run", "--json")
    for done in (fresh, kept, traced):
        (outcome,) = done.json()["outcomes"]
        assert outcome["status"] == status
        assert ("FA102: " in outcome["missing"]) is (status == "not judged")
        assert done.code == (1 if status == "not judged" else 0)
        assert done.json()["holds"] is (status == "holds")


# --- disks and readers that fail ----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["junit", "markdown"])
def test_a_full_disk_is_a_failure_of_the_machine_told_after_the_verdict(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_files, "write_bytes", _full)
    text = limits(tmp_path, "limits", "min_ndcg = 0.01")
    done = run("check", text, *TINY, "--format", f"{form}={tmp_path / 'file'}")
    assert done.code == 1
    assert "all hold; none is about privacy" in done.out
    assert done.said == f"error: {tmp_path / 'file'}: cannot be written: No space left on device\n"


def test_a_plan_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = limits(tmp_path, "limits", "min_ndcg = 0.01")
    for place in (tmp_path, tmp_path / "none" / "plan.toml"):
        done = run("check", text, *TINY, "--save-config", place)
        assert (done.code, str(place) in done.one_error()) == (2, True)
    monkeypatch.setattr(atomic_files, "write_bytes", _full)
    done = run("check", text, *TINY, "--save-config", tmp_path / "plan.toml")
    assert (done.code, "No space left" in done.one_error()) == (1, True)


WRITE = atomic_files.write_bytes


def _full(path: Path, data: bytes) -> None:
    """Write all but the files that options of these tests name."""
    if path.name in ("file", "plan.toml"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    WRITE(path, data)


@pytest.mark.parametrize(
    ("limit", "code", "more"), [("0.01", 0, ()), pytest.param("1.0", 1, ("--json",), marks=pytest.mark.slow)]
)
def test_a_reader_that_leaves_changes_no_exit_code(
    limit: str, code: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    text = limits(tmp_path, "limits", f"min_ndcg = {limit}")
    command = [sys.executable, "-m", "foltr_audit", "check", str(text), *TINY, *more]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == code
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["1 warning", *["broken"] * code]
