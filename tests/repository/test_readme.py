"""The programs of README.md and CONTRIBUTING.md and the examples of docstrings and docs/pitfalls.md run."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit
from foltr_audit.core.warning_kinds import WARNINGS
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.rng import Streams
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


def test_the_program_in_the_readme_finds_what_its_first_command_prints() -> None:
    table: Any = run_program(README)["table"]
    found = dict(table.select("method", "auc").iter_rows())
    (_, printed), *_ = (shown for block in blocks(README) for shown in block.commands)
    assert f"its AUC is {found['olsr']:.3f} [".replace(" 0.", " .") in printed
    assert f"`map` has {found['map']:.3f}" in README.read_text(encoding="utf-8")


def test_make_attack_ends_with_the_first_command_of_the_readme() -> None:
    (command, _), *_ = (shown for block in blocks(README) for shown in block.commands)
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    (eps,) = re.findall(r"^EPS \?= (.*)$", rules, re.MULTILINE)
    assert f"attack: $(RUNTIME)\n\t$(BIN)/{command.replace(eps, '$(EPS)')}\n" in rules


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


# --- docs/pitfalls.md -----------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pitfalls.md"


def test_every_example_runs() -> None:
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)
    assert done.attempted > 20
    assert done.failed == 0


def test_every_section_that_a_warning_names_is_on_the_page() -> None:
    headings = {line.removeprefix("## ") for line in PAGE.read_text(encoding="utf-8").splitlines()}
    assert {kind.section for kind in WARNINGS.values() if kind.section} <= headings


@pytest.mark.parametrize(
    ("n", "dtype", "share"),
    [(1000, np.float64, 0.92), (1000, np.float32, 0.96), (100, np.float64, 0.45), (1, np.float32, 0.0)],
)
def test_coordinates_that_noise_leaves_alone(n: int, dtype: type, share: float) -> None:
    """The share of coordinates of a message that are bit for bit the un-noised ones (docs/maths.md)."""
    rng = np.random.default_rng(3)
    model: np.ndarray[Any, Any] = np.exp(rng.uniform(np.log(0.01), 0.0, size=(2000, 46))).astype(dtype)
    noise = GammaShare(n=n, scale=2.5).sample(Streams(5).clients("tell", 0, np.arange(2000)), 46)
    assert np.mean((model + noise).astype(dtype) == model) == pytest.approx(share, abs=0.02)
