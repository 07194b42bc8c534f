"""Plug-ins that answer with nothing, or with what nobody asked for, end in one line that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack, ClickModel, Defense, Learner, Plugin, Scenario
from foltr_audit.core.plugins.answers import all_of, array_of, arrays_of, one_of
from foltr_audit.core.plugins.registry import GROUPS
from foltr_audit.errors import PluginError
from tests.fixtures.command import SMALL, Done, run
from tests.fixtures.plugin_packages import Installer

START = """
from typing import ClassVar
import numpy as np
from foltr_audit.core.plugins import *
"""

ATTACK = """
class Mine(Attack):
    name: ClassVar[str] = "mine"
    {line}
    def infer(self, view, rng):
        {body}
"""
DEFENSE = """
class Mine(Defense):
    name: ClassVar[str] = "mine"
    def on_message(self, models, context):
        return models.copy()
    def {hook}(self, *_):
        return {body}
"""
MODEL_LEARNER = """
class Mine(ModelLearner):
    name: ClassVar[str] = "mine"
    def {hook}(self, *_):
        return {body}
"""
METRIC_LEARNER = """
class Mine(MetricLearner):
    name: ClassVar[str] = "mine"
    @property
    def values(self):
        return np.array([0.0, 1.0])
    def outcomes(self, clicks):
        return clicks.any(axis=-1).astype(np.int64)
    def perturbations(self, seeds, parameters):
        return np.zeros((len(seeds), parameters))
    def first_state(self, parameters):
        return np.zeros(1)
    def update(self, parameters, state, seeds, messages):
        return parameters, state
    def {hook}(self, *_):
        return None
"""
SCENARIO = """
class Mine(Scenario):
    name: ClassVar[str] = "mine"
    def {hook}(self, *_):
        return {body}
"""
CLICKS = """
class Mine(ClickModel):
    name: ClassVar[str] = "mine"
    def click(self, labels, *_):
        return {body}
"""
OPTION = {
    Attack: "--method",
    Defense: "--defense",
    Learner: "--learner",
    Scenario: "--scenario",
    ClickModel: "--click-model",
}


@pytest.fixture
def ends(tmp_path: Path, install: Installer) -> Any:
    """Runs a command with a plug-in `mine` and gives the one line that it ends with."""

    def end(kind: type[Plugin], source: str, *more: str) -> str:
        install(
            tmp_path / "lab", "lab", {GROUPS[kind]: {"mine": "lab_mine:Mine"}}, {"lab_mine": START + source}
        )
        command = "attack" if kind is Attack else "train"
        done: Done = run(command, *SMALL, OPTION[kind], "mine", *more)
        assert done.code == 2
        return done.one_error()

    return end


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "infer gave None; expected an Inference"),
        ("return view.shown", "infer gave an array of int64"),
        ("return Inference(scores=np.zeros(3), guess=view.is_document)", "scores of shape (3,)"),
        (
            "return Inference(scores=view.is_document, guess=view.is_document, any_click=np.zeros(1))",
            "any_click of shape (1,)",
        ),
    ],
)
def test_an_attack_that_answers_nothing(ends: Any, body: str, said: str) -> None:
    assert f"error: attack mine: {said}" in ends(Attack, ATTACK.format(line="", body=body))


def test_an_attack_that_needs_what_is_not_known(ends: Any) -> None:
    line = 'needs: ClassVar[frozenset[str]] = frozenset({"featuers"})'
    found = ends(Attack, ATTACK.format(line=line, body="return None"))
    assert found.startswith("error: attack mine: it needs 'featuers'; did you mean 'features'?")


def test_an_attack_that_needs_letters(ends: Any) -> None:
    line = 'needs: ClassVar[str] = "shown"'
    found = ends(Attack, ATTACK.format(line=line, body="return None"))
    assert found == "error: attack mine: needs='shown'; expected a frozenset of names"


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("on_clicks", "on_clicks gave None; expected an array of truth values"),
        ("on_step", "on_step gave None; expected an array of numbers"),
        ("on_message", "on_message gave None; expected an array of numbers"),
        ("on_wire", "on_wire gave None; expected a WireMessages"),
        ("on_aggregate", "on_aggregate gave None; expected an array of numbers"),
        ("events", "events gave None; expected a tuple of events"),
        ("claims", "claims gave None; expected a tuple of claims"),
    ],
)
def test_a_defense_that_answers_nothing(ends: Any, hook: str, said: str) -> None:
    source = DEFENSE.format(hook=hook, body="None")
    assert ends(Defense, source).startswith(f"error: defense mine: {said}")


def test_a_defense_with_something_else_for_a_law(ends: Any) -> None:
    source = DEFENSE.format(hook="law", body="'laplace'")
    assert ends(Defense, source) == "error: defense mine: law gave a str; expected a law of noise"


@pytest.mark.parametrize("cost", ["offline_ndcg@10", "round", "bytes_ci95", "a\\\\b"])
def test_a_defense_whose_cost_hides_another_metric(ends: Any, cost: str) -> None:
    body = f"WireMessages(messages=_[0], survivors=_[1], costs={{'{cost}': 1.0}})"
    found = ends(Defense, DEFENSE.format(hook="on_wire", body=body))
    assert found.startswith(f"error: defense mine: cost '{cost}': ")


@pytest.mark.parametrize(
    ("hook", "body", "said"),
    [
        ("local_step", "None", "local_step gave None; expected models (C, P) and truth values (C,)"),
        ("local_step", "(None, None)", "local_step gave None; expected an array of truth values"),
        ("published_chain", "None", "published_chain gave None; expected a tuple of defenses"),
    ],
)
def test_a_learner_of_models_that_answers_nothing(ends: Any, hook: str, body: str, said: str) -> None:
    more = ("--eps", "1.2") if hook == "published_chain" else ()
    assert ends(Learner, MODEL_LEARNER.format(hook=hook, body=body), *more).startswith(
        f"error: learner mine: {said}"
    )


def test_a_learner_whose_sensitivity_is_no_number(tmp_path: Path, install: Installer) -> None:
    source = START + MODEL_LEARNER.format(hook="published_sensitivity", body="'3'")
    install(tmp_path / "lab", "lab", {GROUPS[Learner]: {"mine": "lab_mine:Mine"}}, {"lab_mine": source})
    asked = ("compare", *SMALL, "--learner", "mine", "--defense", "clip:norm={clip}", "--no-audit")
    said = "error: learner mine: published_sensitivity gave a str; expected a float"
    assert run(*asked).err.splitlines()[-1] == said


@pytest.mark.parametrize("hook", ["outcomes", "first_state", "update"])
def test_a_learner_of_metrics_that_answers_nothing(ends: Any, hook: str) -> None:
    found = ends(Learner, METRIC_LEARNER.format(hook=hook))
    assert found.startswith(f"error: learner mine: {hook} gave None; expected a")


@pytest.mark.parametrize(
    ("hook", "body", "said"),
    [
        ("population", "None", "population gave None; expected a Population"),
        ("environment", "3", "environment gave an int; expected an Environment"),
    ],
)
def test_a_scenario_that_answers_nothing(ends: Any, hook: str, body: str, said: str) -> None:
    assert ends(Scenario, SCENARIO.format(hook=hook, body=body)) == f"error: scenario mine: {said}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("None", "None; expected an array of truth values"),
        ("np.zeros(3, dtype=bool)", "an array of shape (3,); expected (40, 10)"),
        ("np.zeros(labels.shape)", "an array of float64, shape (40, 10); expected an array of truth values"),
    ],
)
def test_a_click_model_that_answers_nothing(ends: Any, body: str, said: str) -> None:
    assert ends(ClickModel, CLICKS.format(body=body)).startswith(
        f"error: click model mine: click gave {said}"
    )


def test_what_is_asked_for_passes() -> None:
    array = np.zeros((2, 3))
    assert array_of("a", array, (2, 3)) is array
    assert arrays_of("a", (array, array), ((2, 3), (2, 3))) == (array, array)
    assert one_of("a", 3, int) == 3
    assert all_of("a", [1, 2], (int,), "numbers") == (1, 2)
    wrong: Any
    for wrong in ((array,), None, [array, array]):
        with pytest.raises(PluginError, match=r"a gave .*; expected a tuple of 2 arrays"):
            arrays_of("a", wrong, ((2, 3), (2, 3)))
    with pytest.raises(PluginError, match="a gave a str in a tuple; expected numbers"):
        all_of("a", (1, "x"), (int,), "numbers")
