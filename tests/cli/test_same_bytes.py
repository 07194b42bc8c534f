"""Same Spec, same bytes: twice, with other numbers of threads, and resumed after any loss of parts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fixtures.command import files, run, spawn

ATTACK = (
    "attack --data synthetic:mq2007:60 --clients 1000 --rounds 30 --method all --eps 1.2"
    " --click-model perfect --click-model navigational"
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("same") / "run"
    assert run(ATTACK, "--out", folder).code == 0
    found = files(folder)
    assert len([name for name in found if name.startswith("trace/part-")]) > 1
    return found


@pytest.mark.parametrize("threads", [*(pytest.param(n, marks=pytest.mark.slow) for n in "12"), "7"])
def test_the_number_of_threads_changes_no_byte(
    tmp_path: Path, undisturbed: dict[str, bytes], threads: str
) -> None:
    named = "NUMBA_NUM_THREADS OMP_NUM_THREADS OPENBLAS_NUM_THREADS POLARS_MAX_THREADS"
    environment = dict.fromkeys(named.split(), threads)
    done = spawn(ATTACK, "--out", tmp_path / "run", "--json", **environment)
    assert done.code == 0, done.err
    assert files(tmp_path / "run") == undisturbed
    assert done.out.encode() == undisturbed["results.json"]


def test_the_option_for_threads_changes_no_byte(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    assert run(ATTACK, "--out", tmp_path / "run", "--threads", 1).code == 0
    assert files(tmp_path / "run") == undisturbed


def _restore(content: dict[str, bytes], folder: Path) -> None:
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    "lost", ["nothing", "results", "a fresh trace", "last marker", "all but the spec", "everything"]
)
def test_a_resumed_run_ends_with_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes], lost: str
) -> None:
    folder = tmp_path / "run"
    _restore(undisturbed, folder)
    if lost == "results":
        (folder / "results.json").unlink()
    elif lost == "a fresh trace":
        shutil.rmtree(folder / "fresh" / "navigational")
    elif lost == "last marker":
        shutil.rmtree(folder / "fresh")
        (folder / "model.npy").unlink()
        max((folder / "trace").glob("part-*.json")).unlink()
    elif lost == "all but the spec":
        _keep_only_spec(folder)
    elif lost == "everything":
        shutil.rmtree(folder)
    assert run(ATTACK, "--out", folder, "--resume").code == 0
    assert files(folder) == undisturbed


def _keep_only_spec(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != "spec.toml":
            entry.unlink()
