"""`foltr-audit audit`: functions of the user's own code, inputs, exit codes and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.command import answer, run, spawn

SOURCE = '''
import numpy as np
from dataclasses import dataclass

print("loading")
OWN = np.random.default_rng(3)
TABLE = [1]

@dataclass
class Noise:
    """Dataclasses look for their module."""
    scale: float = 1 / 1.2

def release(x, rng):
    print("releasing")
    return x + rng.laplace(scale=Noise().scale, size=np.shape(x))

def weak(x, rng):
    return x + rng.laplace(scale=0.5 / 1.2, size=np.shape(x))

def reseeded(x, rng):
    return x + np.random.default_rng(1).laplace(size=np.shape(x))

def seeded(x, rng):
    return x + OWN.laplace(size=np.shape(x))

def broken(x, rng):
    raise ValueError("no such\\nquery")

def inputs():
    return np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])

def one_input():
    return np.zeros(3)

class Server:
    @staticmethod
    def answer(x, rng):
        return x + rng.laplace(size=np.shape(x))
'''
SOURCES = {
    "noisy_counts": SOURCE,
    "cannot_load": "1 / 0\n",
    "leaves": "raise SystemExit(0)\n",
    "needs_more": "import no_such_package_anywhere\n",
}
FEW = ("--trials", 1000)
PAIR = ("--zero", "0,0,1", "--one", "0,1,1")


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the user's module, as the current one."""
    for name, source in SOURCES.items():
        (tmp_path / f"{name}.py").write_text(source)
        sys.modules.pop(name, None)  # a page of the documentation has an example of the same name
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name in SOURCES or name.endswith(".py")]:
        del sys.modules[name]


# --- verdicts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["noisy_counts:release", "noisy_counts.py:release", "./noisy_counts.py:release"]
)
def test_an_intact_function_ends_with_0(name: str) -> None:
    done = run("audit", name, *PAIR, "--eps", 1.2, "--confidence", 1 - 1e-7, *FEW)
    assert done.code == 0
    assert "not refuted" in done.out
    assert "loading" not in done.out, "what the user's code prints is no result"
    assert "releasing" in done.err


@pytest.mark.parametrize("place", ["noisy_counts", "noisy_counts.py"])
def test_noise_that_repeats_ends_with_1(place: str) -> None:
    done = run("audit", f"{place}:seeded", *PAIR, *FEW)
    assert done.code == 1
    assert "noise repeats" in done.out


def test_a_function_inside_of_a_class_can_be_named() -> None:
    assert run("audit", "noisy_counts:Server.answer", *PAIR, *FEW).code == 0


def test_json_has_the_same_bytes_for_the_same_seed() -> None:
    asked = ("audit noisy_counts:release --json", *PAIR, *FEW)
    first, other = (run(*asked, "--seed", seed).out for seed in (1, 2))
    again = spawn(*asked, "--seed", 1).out
    assert first == again != other


# --- inputs -----------------------------------------------------------------------------------------


def test_inputs_come_from_options_files_and_functions(tmp_path: Path) -> None:
    zero, one = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
    np.savez(tmp_path / "pair.npz", zero=zero, one=one)
    (tmp_path / "pair.json").write_text('{"zero": [0, 0, 1.0], "one": [0, 1, 1.0]}')
    (tmp_path / "pair.toml").write_text("zero = [0.0, 0.0, 1.0]\none = [0.0, 1.0, 1.0]\n")
    ways = [
        PAIR,
        ("--zero", "[0,0,1]", "--one=0,1,1"),
        *(("--inputs", f"pair.{kind}") for kind in ("npz", "json", "toml")),
        ("--inputs", "inputs"),
        ("--inputs", "noisy_counts:inputs"),
    ]
    asked = ("audit noisy_counts:release", *FEW)
    bounds = [answer(*asked, *way)["results"][0]["eps_lower"] for way in ways]
    assert bounds == [bounds[0]] * len(ways)


def test_one_number_is_a_number_and_may_be_negative() -> None:
    assert run("audit", "noisy_counts:release", "--zero", "-1", "--one", "0", *FEW, "--eps", 1.2).code == 0
