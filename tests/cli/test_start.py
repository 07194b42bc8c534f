from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.command import SMALL, refusal, run

HEAVY = {
    "numba", "scipy", "sklearn", "pandas", "polars", "matplotlib", "statsmodels", "jinja2", "numpy",
    "dp_accounting",
}  # fmt: skip
COMPUTES = HEAVY - {"numba", "numpy", "scipy"} | {"scipy.stats"}
TINY = "--data synthetic:mq2007:60 --clients 10 --rounds 1"


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("--help", {*HEAVY, "pydantic"}),
        ("attack --help", HEAVY),  # it shows what the fields of a Spec say
        ("report --help", HEAVY),
        ("list defenses --help", HEAVY),
        ("ceiling --eps 1.2 --auc .6", HEAVY - {"numpy"}),
        (f"train --eps 1.2 {TINY}", COMPUTES | {"scipy.special"}),
        (f"attack --eps 1.2 --click-model perfect {TINY}", COMPUTES),
    ],
)
def test_a_command_starts_without_heavy_imports(command: str, heavy: set[str]) -> None:
    program = (
        "import sys\nfrom foltr_audit.cli.main import main\n"
        f"code = main({command.split()!r})\n"
        f"loaded = [name for name in {heavy!r} if name in sys.modules]\n"
        "assert not loaded, loaded\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    "command", ["--help", "attack --help", "trace --help", "list attacks", "trace lint -h"]
)
def test_help_that_nobody_reads_to_its_end_ends_with_0(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = [sys.executable, "-m", "foltr_audit", *command.split()]
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_reader_of_stderr_changes_no_exit_code() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "foltr_audit", "train", *SMALL, "--eps", "1.2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writing, text=True, check=False)
    os.close(writing)
    assert done.returncode == 0
    assert "nDCG" in done.stdout


@pytest.mark.parametrize(("given", "found"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_threads_wait_passively_unless_somebody_chose(given: str | None, found: str) -> None:
    """What OpenMP itself says that it was told, when numba's threads load it."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_DISPLAY_ENV": "true"} | ({} if given is None else {"OMP_WAIT_POLICY": given})
    program = "import foltr_audit, numba.np.ufunc.omppool"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        pytest.skip("numba has no OpenMP here")
    assert f"OMP_WAIT_POLICY = '{found}'" in done.stderr


def test_no_arguments_show_the_help() -> None:
    done = run()
    assert done.code == 2
    assert "attack" in done.out


def test_ctrl_c_inside_a_kernel_is_an_interrupt_and_other_system_errors_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Numba turns a KeyboardInterrupt that comes during a call into a SystemError that it caused."""

    def interrupted(*_: object, **__: object) -> None:
        try:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise SystemError("a function returned a result with an exception set") from error
        except SystemError as error:
            raise SystemError("a kernel returned a result with an exception set") from error

    def broken(*_: object, **__: object) -> None:
        raise SystemError("broken")

    monkeypatch.setattr("foltr_audit.experiments.runner.Runner.run", interrupted)
    error = refusal("train --data synthetic:mq2007:30", code=130)
    assert error == "error: interrupted; a run with --out can be resumed with --resume"
    kept = run("train", "--data", "synthetic:mq2007:30", "--out", tmp_path / "kept")
    assert (kept.code, "--resume" in kept.one_error()) == (130, True)
    monkeypatch.setattr("foltr_audit.experiments.runner.Runner.run", broken)
    with pytest.raises(SystemError, match="broken"):
        run("train", "--data", "synthetic:mq2007:30")


@pytest.mark.parametrize(
    "line",
    [
        "raise MemoryError",
        "raise ImportError('lib.so: failed to map segment from shared object')",
        "import warnings; warnings.warn('Polars binary is missing!')",  # what polars does then
    ],
)
def test_a_library_that_lacks_memory_is_one_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "polars.py").write_text(line)
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert "memory" in refusal("train", *SMALL, "--out", tmp_path / "run", code=1)
