"""Without an extra, one line says what needs it and how to get it, before anything is computed or written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import foltr_audit as fa
from foltr_audit.errors import UsageError
from tests.fixtures.command import SMALL, refusal

OUT = ("--out", "run", "--save-config", "spec.toml")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(needed_by: str, package: str, extra: str) -> str:
    return f"{needed_by}: the package {package} is not installed; pip install 'foltr-audit[{extra}]'"


@pytest.mark.parametrize(
    ("command", "needed_by", "package", "extra"),
    [
        (("train", *SMALL, *OUT, "--plot", "a.svg"), "--plot", "matplotlib", "plot"),
        (("attack", *SMALL, *OUT, "--plot", "a.png"), "--plot", "matplotlib", "plot"),
        (("compare", *SMALL, *OUT, "--plot", "a.pdf"), "--plot", "matplotlib", "plot"),
        (("study run pham-2022-figure-1 --synthetic --plot a.svg",), "--plot", "matplotlib", "plot"),
        (("study merge --topics kmeans:3 --out run",), "--out", "matplotlib", "plot"),
        (("compare", *SMALL, *OUT, "--backend", "dask"), "--backend dask", "distributed", "dask"),
        (("recommend --max-eps 4", *SMALL, *OUT), "recommend", "optuna", "recommend"),
    ],
)
def test_a_command_refuses_before_it_begins(
    command: tuple[str, ...],
    needed_by: str,
    package: str,
    extra: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert refusal(*command) == f"error: {line(needed_by, package, extra)}"
    assert not list(folder.iterdir())


def test_a_recorded_run_is_attacked_with_a_picture_or_not_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert refusal("attack --trace nowhere --plot a.svg") == f"error: {line('--plot', 'matplotlib', 'plot')}"


def test_calls_refuse_too_and_what_draws_nothing_needs_no_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = fa.calibrate(1.2, parameters=46, mechanisms=["laplace"])
    calls: dict[tuple[str, str, str], Callable[[], object]] = {
        (".plot()", "matplotlib", "plot"): report.plot,
        ("save: a.png", "matplotlib", "plot"): lambda: report.save("a.png"),
        ("torch_step", "torch", "torch"): lambda: fa.torch_step(max, parameters=1),
    }
    for (needed_by, package, extra), call in calls.items():
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(UsageError) as error:
            call()
        assert str(error.value) == line(needed_by, package, extra)
    for ending in ("json", "csv", "txt", "html"):
        report.save(f"a.{ending}")
    assert sorted(path.suffix for path in folder.iterdir()) == [".csv", ".html", ".json", ".txt"]
