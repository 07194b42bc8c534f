"""`foltr-audit audit-function`: functions of the user's own code, inputs, exit codes and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.command import Done, run, spawn

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


def audited(name: str, *options: object) -> Done:
    return run("audit-function", name, *options)


def one_error(done: Done) -> str:
    """The error, which stands after what the user's own code printed."""
    assert done.code == 2
    assert done.out == ""
    (line,) = [line for line in done.err.splitlines() if line not in ("loading", "releasing")]
    assert line.startswith("error: ")
    return line


# --- verdicts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["noisy_counts:release", "noisy_counts.py:release", "./noisy_counts.py:release"]
)
def test_an_intact_function_ends_with_0(name: str) -> None:
    done = audited(name, *PAIR, "--eps", 1.2, "--confidence", 1 - 1e-7, *FEW)
    assert done.code == 0
    assert "not refuted" in done.out
    assert "loading" not in done.out, "what the user's code prints is no result"
    assert "releasing" in done.err


def test_a_false_claim_ends_with_1_and_the_level_stands_beside_the_bound() -> None:
    done = audited("noisy_counts:weak", *PAIR, "--eps", 1.2, *FEW)
    assert done.code == 1
    said = " ".join(done.out.split())
    assert "shown by 1000 trials with each input, at 95 % confidence" in said
    assert "refuted: these trials show" in said


def test_without_a_claim_the_bound_is_shown_with_0() -> None:
    done = audited("noisy_counts:weak", *PAIR, *FEW)
    assert done.code == 0
    assert "no claim" in done.out


@pytest.mark.parametrize("name", ["reseeded", "seeded"])
@pytest.mark.parametrize("place", ["noisy_counts", "noisy_counts.py"])
def test_noise_that_repeats_ends_with_1(name: str, place: str) -> None:
    done = audited(f"{place}:{name}", *PAIR, *FEW)
    assert done.code == 1
    assert "noise repeats" in done.out


def test_a_function_inside_of_a_class_can_be_named() -> None:
    assert audited("noisy_counts:Server.answer", *PAIR, *FEW).code == 0


def test_json_has_the_same_bytes_for_the_same_seed() -> None:
    first, other = (
        audited("noisy_counts:release", *PAIR, *FEW, "--seed", seed, "--json").out for seed in (1, 2)
    )
    again = spawn("audit-function", "noisy_counts:release", *PAIR, *FEW, "--seed", 1, "--json").out
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
    bounds = [
        audited("noisy_counts:release", *way, *FEW, "--json").json()["results"][0]["eps_lower"]
        for way in ways
    ]
    assert bounds == [bounds[0]] * len(ways)


def test_one_number_is_a_number_and_may_be_negative() -> None:
    assert audited("noisy_counts:release", "--zero", "-1", "--one", "0", *FEW, "--eps", 1.2).code == 0


# --- errors -----------------------------------------------------------------------------------------

NAMES = {
    "no colon": ("noisy_counts", "expected MODULE:FUNCTION or FILE.py:FUNCTION"),
    "no module": ("nosy:release", "no module 'nosy' in"),
    "no file": ("nosy.py:release", "nosy.py: no such file"),
    "no function": ("noisy_counts:relese", "did you mean 'release'?"),
    "no function, but a list": ("noisy_counts:TABLE", "is a list; expected a function"),
    "module raises": ("cannot_load:f", "importing cannot_load raised ZeroDivisionError: division by zero"),
    "file raises": ("cannot_load.py:f", "importing cannot_load.py raised ZeroDivisionError"),
    "module leaves": ("leaves:f", "importing leaves raised SystemExit"),
    "module needs another": ("needs_more:f", "raised ModuleNotFoundError: No module named"),
    "function raises": ("noisy_counts:broken", "raised ValueError with input"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_function_that_cannot_be_called_is_one_line(case: str) -> None:
    name, expected = NAMES[case]
    assert expected in one_error(audited(name, *PAIR, *FEW))


OPTIONS: dict[str, tuple[tuple[object, ...], str]] = {
    "no inputs": ((), "expected two neighbouring inputs"),
    "one input": (("--zero", "1"), "expected two neighbouring inputs"),
    "the same twice": (("--zero", "1,2", "--one", "1,2"), "expected neighbours that differ"),
    "both ways": ((*PAIR, "--inputs", "inputs"), "expected no --zero and --one"),
    "no number": (("--zero", "0,a", "--one", "1"), "--zero: '0,a'; expected numbers separated by commas"),
    "ragged": (("--zero", "[[1],[1,2]]", "--one", "1"), "--zero: '[[1],[1,2]]'; expected numbers"),
    "no file": (("--inputs", "pair.npz"), "pair.npz: no such file"),
    "no such function": (("--inputs", "inptus"), "did you mean 'inputs'?"),
    "no pair": (("--inputs", "one_input"), "returned a ndarray; expected a pair of inputs"),
    "eps": ((*PAIR, "--eps", "0"), "--eps"),
    "trials": ((*PAIR, "--trials", "5"), "--trials=5"),
    "estimator": ((*PAIR, "--estimator", "betting-on"), "did you mean 'betting'?"),
    "estimator without delta": ((*PAIR, "--estimator", "gaussian-dp"), "expected a delta above 0"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_wrong_option_is_one_line(case: str) -> None:
    options, expected = OPTIONS[case]
    assert expected in one_error(audited("noisy_counts:release", *options))


FILES = {
    "pair.json": ('{"zero": [0]}', "it holds zero; expected zero and one"),
    "text.json": ('{"zero": ["a"], "one": [1]}', "zero: ['a']; expected numbers"),
    "more.toml": ("zero = [0]\none = [1]\ntwo = [2]\n", "expected zero and one, two inputs"),
    "broken.toml": ("zero = [\n", "not TOML"),
    "broken.npz": ("PK", "broken.npz: damaged"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_one_line(name: str, tmp_path: Path) -> None:
    content, expected = FILES[name]
    (tmp_path / name).write_text(content)
    assert expected in one_error(audited("noisy_counts:release", "--inputs", name))
