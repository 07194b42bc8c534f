"""How `foltr-audit check` ends: what cannot be judged in a new run, failing disks, and readers that leave."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from foltr_audit.recorder import atomic_files

from tests.fixtures.command import refusal, run

ONE = ("--data", "synthetic:mq2007:60", "--clients", "20", "--rounds", "2", "--click-model", "perfect")


def written(folder: Path, text: str) -> Path:
    path = folder / "limits.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--learner", "foltr-es", "foltr-es"),
        ("--scenario", "quantity-skew:zipf=1", "different numbers of interactions"),
    ],
)
def test_a_new_run_judges_what_it_can(option: str, value: str, why: str, tmp_path: Path) -> None:
    text = written(tmp_path, "min_ndcg = 0.01\nmax_exact_eps = 1.0\nmax_proven_eps = 1.0")
    done = run("check", text, *ONE, option, value, "--json")
    assert done.code == 1
    found = {one["limit"]: one["status"] for one in done.json()["outcomes"]}
    assert found == {"max_exact_eps": "not judged", "max_proven_eps": "not judged", "min_ndcg": "holds"}
    lines = done.said.splitlines()
    assert [line.startswith("not judged: ") and why in line for line in lines] == [True] * 2
    alone = run("check", written(tmp_path, "max_proven_eps = 1.0"), *ONE, option, value)
    assert (alone.code, alone.said.startswith("not judged: max_proven_eps: ")) == (1, True)


def test_a_chain_without_a_claim_is_not_judged_by_claims(tmp_path: Path) -> None:
    text = written(tmp_path, "no_refuted_claims = true\n")
    done = run("check", text, *ONE, "--defense", "clip:norm=1", "--method", "olsr", "--trials", 20)
    assert (done.code, "there is no claim to refute" in done.said) == (1, True)


def test_a_broken_limit_ends_with_1_though_another_cannot_be_judged(tmp_path: Path) -> None:
    text = written(tmp_path, "min_ndcg = 0.99\nmax_proven_eps = 1.0")
    done = run("check", text, *ONE, "--learner", "foltr-es", "--json")
    assert done.code == 1
    assert {one["status"] for one in done.json()["outcomes"]} == {"broken", "not judged"}


@pytest.mark.parametrize("form", ["junit", "markdown"])
def test_a_full_disk_is_a_failure_of_the_machine_told_after_the_verdict(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_files, "write_bytes", _full)
    text = written(tmp_path, "min_ndcg = 0.01")
    done = run("check", text, *ONE, "--format", f"{form}={tmp_path / 'file'}")
    assert done.code == 1
    assert "all hold; none is about privacy" in done.out
    assert done.said == f"error: {tmp_path / 'file'}: cannot be written: No space left on device\n"


def test_a_plan_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(tmp_path, "min_ndcg = 0.01")
    for place in (tmp_path, tmp_path / "none" / "plan.toml"):
        done = run("check", text, *ONE, "--save-config", place)
        assert (done.code, str(place) in done.one_error()) == (2, True)
    monkeypatch.setattr(atomic_files, "write_bytes", _full)
    done = run("check", text, *ONE, "--save-config", tmp_path / "plan.toml")
    assert (done.code, "No space left" in done.one_error()) == (1, True)


WRITE = atomic_files.write_bytes


def _full(path: Path, data: bytes) -> None:
    """Write all but the files that options of these tests name."""
    if path.name in ("file", "plan.toml"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    WRITE(path, data)


@pytest.mark.parametrize("number", [".6", "+.6"])
def test_a_number_without_its_zero_is_explained(number: str, tmp_path: Path) -> None:
    line = refusal("check", written(tmp_path, f"min_ndcg = 0.1\nmax_attack_auc = {number}\n"), *ONE)
    assert line.endswith(f"; write {number.replace('.', '0.')}")
    assert "write" not in refusal("check", written(tmp_path, "max_attack_auc = x.6"), *ONE)


@pytest.mark.parametrize(
    ("limit", "code", "more"), [("0.01", 0, ()), pytest.param("1.0", 1, ("--json",), marks=pytest.mark.slow)]
)
def test_a_reader_that_leaves_changes_no_exit_code(
    limit: str, code: int, more: tuple[str, ...], tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    text = written(tmp_path, f"min_ndcg = {limit}")
    command = [sys.executable, "-m", "foltr_audit", "check", str(text), *ONE, *more]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == code
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["1 warning", *["broken"] * code]
