"""The registry: every plug-in is found, made from text, and nothing else is let in."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, ValidationError

from foltr_audit.core.plugins import Attack, Defense, Learner, Plugin, plain
from foltr_audit.core.plugins.registry import GROUPS, SINGULAR, make, names, parameters, plugin_class, remade
from foltr_audit.errors import PluginError, first_problem
from tests.fixtures.plugin_packages import Installer

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOLDERS = ("attacks", "defenses", "scenarios")


# --- what is registered ---------------------------------------------------------------------------


@pytest.mark.parametrize("base", GROUPS)
def test_the_installed_plugins_are_those_of_pyproject(base: type[Plugin]) -> None:
    stated = PROJECT["entry-points"].get(GROUPS[base], {})
    installed = {point.name: point.value for point in entry_points(group=GROUPS[base])}
    missing = {name: value for name, value in stated.items() if installed.get(name) != value}
    assert not missing, "pyproject.toml changed since the last `pip install --editable`"
    assert set(stated) <= set(names(base))
    assert list(names(base)) == sorted(names(base))


def test_every_plugin_of_the_three_folders_is_registered() -> None:
    stated = {value for base in GROUPS for value in PROJECT["entry-points"].get(GROUPS[base], {}).values()}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            named = any(
                isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == "name" for line in node.body
            )
            value = f"foltr_audit.{path.parent.name}.{path.stem}:{node.name}"
            assert not named or value in stated, f"{value} needs a line in pyproject.toml"


def test_every_kind_has_words_of_its_own() -> None:
    assert set(SINGULAR) == set(GROUPS)
    assert len(set(GROUPS.values())) == len(GROUPS)


# --- from text ------------------------------------------------------------------------------------


LEARNER = "fpdgd:clip_without_pairs=false,interactions=4,learning_rate=0.1,normaliser=candidates,pairs=all"
DISTANCE = "higher-distance:compare=documents,more_than=4"


@pytest.mark.parametrize(
    ("base", "text", "label", "canonical"),
    [
        (Attack, "olsr", "olsr", None),
        (Attack, " olsr : tolerance = 1e-3 ", "olsr:tolerance=0.001", None),
        (Attack, "higher-distance:more_than=4", "higher-distance:more_than=4", DISTANCE),
        (Attack, "first-position", "first-position", None),
        (Defense, "clip:norm=3.0", "clip:norm=3", None),
        (Learner, LEARNER.replace("false", "no"), "fpdgd:clip_without_pairs=false,pairs=all", LEARNER),
    ],
)
def test_text_forms(base: type[Plugin], text: str, label: str, canonical: str | None) -> None:
    plugin, canonical = make(base, text), canonical or label
    assert plugin.text == canonical
    assert plugin.label == label
    assert make(base, canonical) == plugin == make(base, label)


def test_plain_values() -> None:
    texts = "true false 3 -0.5 1e-09 0.30000000000000004 7 all"
    assert [plain(value) for value in (True, False, 3.0, -0.5, 1e-9, 0.1 + 0.2, 7, "all")] == texts.split()


def test_remade_changes_parameters_and_validates_them() -> None:
    learner = make(Learner, "fpdgd:interactions=2,pairs=all")
    other = remade(learner, {"interactions": 3})
    assert other == make(Learner, "fpdgd:interactions=3,pairs=all")
    assert learner.model_dump()["interactions"] == 2
    assert remade(learner, {}) == learner
    with pytest.raises(PluginError, match="learner fpdgd: unknown parameter 'interaction'; did you mean"):
        remade(learner, {"interaction": 3})
    with pytest.raises(PluginError, match="learner fpdgd: interactions=0: "):
        remade(learner, {"interactions": 0})


def test_parameters_are_listed() -> None:
    number = {"type": "float", "default": None, "required": True}
    assert parameters(plugin_class(Defense, "laplace")) == [
        {"name": "eps", **number, "description": "claimed epsilon of a round"},
        {"name": "sensitivity", **number, "description": "largest L1 distance of two messages"},
    ]
    rows = {row["name"]: row for row in parameters(plugin_class(Learner, "fpdgd"))}
    assert rows["interactions"]["type"] == "int"
    assert (rows["interactions"]["default"], rows["interactions"]["required"]) == (4, False)
    assert parameters(plugin_class(Defense, "none")) == []


class _Sample(Plugin):
    name: ClassVar[str] = "sample"
    size: int = Field(ge=1)


def test_first_problem_is_one_line() -> None:
    with pytest.raises(ValidationError) as caught:
        _Sample(size=0)
    assert first_problem(caught.value) == "size=0: input should be greater than or equal to 1"
    assert first_problem(caught.value, {"size": "--size"}).startswith("--size=0: ")
    with pytest.raises(ValidationError) as caught:
        _Sample()  # type: ignore[call-arg]
    assert first_problem(caught.value) == "size is missing"


# --- plug-ins of others ---------------------------------------------------------------------------

MODULE = '''
from foltr_audit.core.plugins import Attack, Inference


class Mine(Attack):
    """Names nothing."""

    name = "mine"

    def infer(self, view, rng):
        return Inference(scores=view.shown, guess=view.shown < -1)


class NotOne:
    """No plug-in."""
'''


GROUP = GROUPS[Attack]


class TestPluginsOfOthers:
    def test_are_found_like_built_ins(self, tmp_path: Path, install: Installer) -> None:
        install(tmp_path, "other-lab", {GROUP: {"mine": "other_lab:Mine"}}, {"other_lab": MODULE})
        assert {"mine", "olsr"} <= set(names(Attack))
        assert make(Attack, "mine").text == "mine"
        assert plugin_class(Attack, "mine") is plugin_class(Attack, "mine")

    def test_a_shadowed_module_is_refused(
        self, tmp_path: Path, install: Installer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(tmp_path / "a", "other-lab", {GROUP: {"mine": "other_lab:Mine"}}, {"other_lab": MODULE})
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "other_lab.py").write_text(MODULE)
        monkeypatch.syspath_prepend(str(tmp_path / "b"))
        with pytest.raises(PluginError, match=r"other_lab of other-lab is shadowed by .*b/other_lab\.py"):
            make(Attack, "mine")

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("other_lab:NotOne", "other_lab:NotOne is no attack"),
            ("other_lab:MODULE", "'mine' (other_lab:MODULE) cannot be loaded"),
            ("other_lab_missing.inner:Mine", "'mine' (other_lab_missing.inner:Mine) cannot be loaded"),
            ("foltr_audit.core.plugins:Defense", "of other-lab is shadowed by "),
        ],
    )
    def test_what_is_no_plugin_is_refused(
        self, tmp_path: Path, install: Installer, value: str, message: str
    ) -> None:
        install(tmp_path, "other-lab", {GROUP: {"mine": value}}, {"other_lab": MODULE})
        with pytest.raises(PluginError) as caught:
            make(Attack, "mine")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_two_claims_to_a_name_are_refused(self, tmp_path: Path, install: Installer) -> None:
        install(tmp_path, "other-lab", {GROUP: {"olsr": "other_lab:Mine"}}, {"other_lab": MODULE})
        with pytest.raises(PluginError, match=r"'olsr' is registered twice: .*other_lab:Mine"):
            names(Attack)

    def test_the_same_claim_twice_is_one(self, tmp_path: Path, install: Installer) -> None:
        install(tmp_path, "other-lab", {GROUP: {"olsr": "foltr_audit.attacks.olsr:OLSR"}}, {})
        assert names(Attack).count("olsr") == 1
