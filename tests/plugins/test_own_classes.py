"""Plug-ins of the user's own code: what Specs call them, who imports them, and what never does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR
from foltr_audit.defenses.clip import Clip

import foltr_audit as fa
from foltr_audit.cli.main import main
from foltr_audit.core.plugins import Attack, ClickModel, Defense, Inference, View
from foltr_audit.core.plugins.registry import import_class, make, text_of
from foltr_audit.errors import FoltrAuditError, PluginError
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.workers import Workers

SMALL: dict[str, Any] = {
    "data": {"source": "synthetic:mq2007:30"},
    "population": {"clients": 10},
    "train": {"rounds": 1},
}

MODULE = """
from foltr_audit.defenses.clip import Clip
from pathlib import Path

Path(__file__).with_suffix(".imported").touch()

class Tight(Clip):
    pass
"""


class Last(Attack):
    """Names the last document, as an attack of a module that can be imported."""

    needs: ClassVar[frozenset[str]] = frozenset({"shown", "order"})
    keep: float = 0.5

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        scores = np.broadcast_to(np.arange(view.shown.shape[2]), view.shown.shape).astype(np.float64)
        return Inference(scores=scores, guess=view.is_document)


class Weighted(Attack):
    """Has a parameter that has no text."""

    needs: ClassVar[frozenset[str]] = frozenset({"shown"})
    weights: tuple[float, ...] = ()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "own_defenses.py"
    path.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield path
    sys.modules.pop("own_defenses", None)


def fleeting() -> type[Clip]:
    """A class that no other process finds."""

    class Loose(Clip):
        pass

    return Loose


def test_a_spec_names_a_class_of_a_module() -> None:
    spec = fa.Spec(**SMALL, attack={"methods": [Last(keep=0.25), Last, "olsr"]}, defense=Clip(norm=1.5))
    assert spec.attacks == (f"{__name__}:Last:keep=0.25", f"{__name__}:Last:keep=0.5", "olsr")
    assert spec.defense == ("clip:norm=1.5",)
    assert fa.Spec.from_toml(spec.toml) == spec
    assert make(Attack, spec.attacks[0]) == Last(keep=0.25)


def test_a_registered_class_keeps_its_name() -> None:
    assert text_of(Attack, OLSR) == "olsr"


def test_an_attack_of_ones_own_is_run_and_scored() -> None:
    spec = fa.Spec(**SMALL, attack={"methods": [Last()], "click_models": ["perfect"]})
    report = fa.attack(spec)
    found = [row["method"] for row in report.results if not row["baseline"]]
    assert found == [f"{__name__}:Last"]


def test_a_grid_takes_chains_of_objects() -> None:
    loose = fleeting()
    grid = ComparisonGrid.parse({"defenses": [[loose(norm=1.5), "gaussian:sigma=1"], Clip(norm=2)]})
    assert grid.defenses == ("Loose:norm=1.5+gaussian:sigma=1", "clip:norm=2")


def test_a_class_that_only_this_process_has_is_neither_saved_nor_sent(tmp_path: Path) -> None:
    spec = fa.Spec(**SMALL, defense=[fleeting()(norm=1.5)])
    assert spec.defense == ("Loose:norm=1.5",)
    with pytest.raises(PluginError, match="Loose is a class of a function: what is saved"):
        fa.simulate(spec, out=tmp_path / "run")
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").glob("*.toml"))
    grid: Any = {
        "defenses": [fleeting()(norm=1.5)],
        "runs": 1,
        "eps": [1.2],
        "audit": False,
        "spec": SMALL,
    }
    with pytest.raises(PluginError, match="what is saved"):
        fa.compare(grid, out=tmp_path / "study")
    with pytest.raises(PluginError, match="worker processes cannot import it; expected jobs=1"):
        fa.compare(grid, jobs=2)


def test_a_class_that_is_defined_again_takes_the_place_of_the_former_one() -> None:
    first, second = fleeting(), fleeting()
    text = fa.Spec(defense=first(norm=1)).defense[0]
    assert type(make(Defense, text)) is first
    assert fa.Spec(defense=second(norm=1)).defense[0] == text
    assert type(make(Defense, text)) is second


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([Weighted(weights=(1.0, 2.0))], "does not give the same parameters"),
        ([Clip(norm=1)], "Clip is a plug-in of kind defense; expected attack"),
        (["no_such_module:Attack"], "a text imports nothing"),
    ],
)
def test_what_a_spec_cannot_hold_is_refused(given: object, message: str) -> None:
    with pytest.raises(FoltrAuditError, match=message):
        fa.attack({"attack": {"methods": given}})


def test_a_file_imports_nothing_unless_the_user_names_the_class(
    module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rule of what is executed: a Spec from a file names a class, and nobody imports it."""
    Path("spec.toml").write_text('defense = ["own_defenses:Tight:norm=1.5"]\n')
    sys.path.insert(0, str(module.parent))
    small = ["train", "--data", "synthetic:mq2007:30", "--clients", "10", "--rounds", "1", "-q"]
    assert main([*small, "--config", "spec.toml"]) == 2
    error = capsys.readouterr().err
    assert "a text imports nothing" in error
    assert "--plugin own_defenses:Tight" in error
    assert not module.with_suffix(".imported").exists()
    assert "own_defenses" not in sys.modules
    assert main(["--plugin", "own_defenses:Tight", *small, "--config", "spec.toml"]) == 0
    assert module.with_suffix(".imported").exists()


def test_an_option_names_a_class_of_a_file(module: Path, tmp_path: Path) -> None:
    small = ["--data", "synthetic:mq2007:30", "--clients", "10", "--rounds", "1", "-q"]
    chain = "own_defenses.py:Tight:norm=1.5+gaussian:sigma=1"
    assert main(["train", *small, "--defense", chain, "--save-config", "spec.toml"]) == 0
    spec = fa.Spec.from_toml((tmp_path / "spec.toml").read_text())
    assert spec.defense == ("own_defenses:Tight:norm=1.5", "gaussian:sigma=1")


def test_worker_processes_import_what_the_user_named(module: Path) -> None:
    """Also those that an earlier comparison started, before the folder of the module was known."""
    assert sorted(Workers(jobs=2).results(abs, range(4))) == [0, 1, 2, 3]
    sys.path.insert(0, str(module.parent))
    tight = cast("type[Clip]", import_class("own_defenses:Tight"))
    spec = {**SMALL, "data": {"source": "synthetic:mq2007:60"}}
    grid: Any = {"click_models": ["perfect"], "attacks": [Last()], "runs": 1}
    grid |= {"defenses": [tight(norm=1.5)], "audit": False, "spec": spec}
    report = fa.compare(grid, jobs=2)
    assert [row["name"] for row in report.results] == ["none", "own_defenses:Tight:norm=1.5"]
    assert not report.failed


def test_click_models_may_be_objects() -> None:
    perfect = make(ClickModel, "perfect")
    assert fa.Spec(train={"click_model": perfect}).train.click_model == "perfect"
