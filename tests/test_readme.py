"""The commands and the program of README.md run as they are written, and so do the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest

import foltr_audit
from tests.command import run

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n\s*", "", README).splitlines()
COMMANDS = sorted({line.strip() for line in LINES if re.match(r" {4}foltr-audit ", line)})
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(foltr_audit.__path__, "foltr_audit.")
    if not info.name.endswith("__main__")
)


def test_the_program_in_the_readme_runs() -> None:
    program = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(compile(program, "README.md", "exec"), names)  # noqa: S102  our own text
    assert "olsr" in str(names["table"])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_in_the_readme_exist(command: str) -> None:
    name, *rest = shlex.split(command)[1:]
    path = [name, rest[0]] if name in ("data", "scenario", "trace") else [name]
    done = run(*path, "--help")
    assert done.code == 0
    known = set(re.findall(r"--[a-z-]+", done.out))
    options = {word for word in shlex.split(command) if word.startswith("--")}
    assert options <= known


@pytest.mark.parametrize("module", ["foltr_audit", *MODULES])
def test_the_examples_in_docstrings_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_contributing_s_example_is_a_working_plug_in() -> None:
    import numpy as np

    from foltr_audit.plugins import Attack, View

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "example", "exec"), names)  # noqa: S102
    kind = names["LastPosition"]
    assert isinstance(kind, type)
    assert issubclass(kind, Attack)
    shown = np.array([[[4, 2, -1]]])
    view = View(
        observer="individual",
        kind="update",
        parameters=np.zeros((1, 2)),
        messages=np.zeros((1, 2)),
        shown=shown,
        features=np.zeros((1, 1, 3, 2), dtype=np.float32),
    )
    assert kind().infer(view, np.random.default_rng(0)).guess.tolist() == [[[False, True, False]]]
