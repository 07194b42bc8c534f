"""The programs of README.md and CONTRIBUTING.md run as written, and so do the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import foltr_audit
from tests.fixtures.doc_examples import README, ROOT, blocks

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(foltr_audit.__path__, "foltr_audit.")
    if not info.name.endswith("__main__")
)


def run_program(path: Path) -> dict[str, object]:
    """Run the only program of a document; the names that it leaves."""
    (program,) = [block for block in blocks(path) if block.is_program]
    return program.executed(path.name)


def test_the_program_in_the_readme_runs() -> None:
    names = run_program(README)
    assert "olsr" in str(names["table"])


def has_examples(module: str) -> bool:
    """Whether the source of a module shows a prompt."""
    spec = importlib.util.find_spec(module)
    return spec is None or spec.origin is None or ">>>" in Path(spec.origin).read_text("utf-8")


def test_every_module_can_be_imported() -> None:
    wrong = {}
    for module in MODULES:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever a module raises
            wrong[module] = repr(error)
    assert not wrong


@pytest.mark.parametrize("module", ["foltr_audit", *filter(has_examples, MODULES)])
def test_the_examples_in_docstrings_hold(module: str) -> None:
    # `doctest.testmod` runs docstrings without examples, too, and each run looks at every file that was read.
    for docstring in doctest.DocTestFinder().find(importlib.import_module(module)):
        if docstring.examples:
            assert doctest.DocTestRunner(verbose=False).run(docstring).failed == 0


def test_contributing_s_example_is_a_working_plug_in() -> None:
    import numpy as np

    from foltr_audit.core.plugins import Attack, View

    kind = run_program(ROOT / "CONTRIBUTING.md")["LastPosition"]
    assert isinstance(kind, type)
    assert issubclass(kind, Attack)
    seen: dict[str, Any] = {"parameters": np.zeros((1, 2)), "messages": np.zeros((1, 2))}
    seen |= {"shown": np.array([[[4, 2, -1]]]), "features": np.zeros((1, 1, 3, 2), dtype=np.float32)}
    view = View(observer="individual", kind="update", **seen)
    assert kind().infer(view, np.random.default_rng(0)).guess.tolist() == [[[False, True, False]]]
