"""Plug-ins that answer with nothing, or with what nobody asked for, end in one line that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack, ClickModel, Defense, Learner, Plugin, Scenario
from foltr_audit.core.plugins.answers import all_of, array_of, arrays_of, one_of
from foltr_audit.core.plugins.registry import GROUPS, SINGULAR
from foltr_audit.errors import PluginError
from tests.fixtures.command import SMALL, run
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


def attack(body: str, line: str = "") -> str:
    return ATTACK.format(line=line, body=body)


def defense(hook: str, body: str = "None") -> str:
    return DEFENSE.format(hook=hook, body=body)


def model_learner(hook: str, body: str = "None") -> str:
    return MODEL_LEARNER.format(hook=hook, body=body)


def needs(kind: str, names: str) -> str:
    return attack("return None", f"needs: ClassVar[{kind}] = {names}")


def costs(name: str) -> str:
    return defense("on_wire", f"WireMessages(messages=_[0], survivors=_[1], costs={{'{name}': 1.0}})")


WRONG: list[tuple[type[Plugin], str, str]] = [
    (Attack, attack("return None"), "infer gave None; expected an Inference"),
    (Attack, attack("return view.shown"), "infer gave an array of int64"),
    (Attack, attack("return Inference(scores=np.zeros(3), guess=view.is_document)"), "scores of shape (3,)"),
    (
        Attack,
        attack("return Inference(scores=view.is_document, guess=view.is_document, any_click=np.zeros(1))"),
        "any_click of shape (1,)",
    ),
    (
        Attack,
        needs("frozenset[str]", 'frozenset({"featuers"})'),
        "it needs 'featuers'; did you mean 'features'?",
    ),
    (Attack, needs("str", '"shown"'), "needs='shown'; expected a frozenset of names"),
    (Defense, defense("on_clicks"), "on_clicks gave None; expected an array of truth values"),
    (Defense, defense("on_step"), "on_step gave None; expected an array of numbers"),
    (Defense, defense("on_message"), "on_message gave None; expected an array of numbers"),
    (Defense, defense("on_wire"), "on_wire gave None; expected a WireMessages"),
    (Defense, defense("on_aggregate"), "on_aggregate gave None; expected an array of numbers"),
    (Defense, defense("events"), "events gave None; expected a tuple of events"),
    (Defense, defense("claims"), "claims gave None; expected a tuple of claims"),
    (Defense, defense("law", "'laplace'"), "law gave a str; expected a law of noise"),
    *((Defense, costs(name), f"cost '{name}': ") for name in ("offline_ndcg@10", "round", "bytes_ci95")),
    (Defense, costs("a\\\\b"), "cost 'a\\\\b': "),
    (
        Learner,
        model_learner("local_step"),
        "local_step gave None; expected models (C, P) and truth values (C,)",
    ),
    (
        Learner,
        model_learner("local_step", "(None, None)"),
        "local_step gave None; expected an array of truth values",
    ),
    (Learner, model_learner("published_chain"), "published_chain gave None; expected a tuple of defenses"),
    *(
        (Learner, METRIC_LEARNER.format(hook=hook), f"{hook} gave None; expected a")
        for hook in ("outcomes", "first_state", "update")
    ),
    (
        Scenario,
        SCENARIO.format(hook="population", body="None"),
        "population gave None; expected a Population",
    ),
    (
        Scenario,
        SCENARIO.format(hook="environment", body="3"),
        "environment gave an int; expected an Environment",
    ),
    (ClickModel, CLICKS.format(body="None"), "click gave None; expected an array of truth values"),
    (
        ClickModel,
        CLICKS.format(body="np.zeros(3, dtype=bool)"),
        "click gave an array of shape (3,); expected (40, 10)",
    ),
    (
        ClickModel,
        CLICKS.format(body="np.zeros(labels.shape)"),
        "click gave an array of float64, shape (40, 10); expected an array of truth values",
    ),
]


@pytest.mark.parametrize(("kind", "source", "said"), WRONG, ids=[said.split(";")[0] for *_, said in WRONG])
def test_a_wrong_answer_ends_in_one_line(
    kind: type[Plugin], source: str, said: str, tmp_path: Path, install: Installer
) -> None:
    install(tmp_path / "lab", "lab", {GROUPS[kind]: {"mine": "lab_mine:Mine"}}, {"lab_mine": START + source})
    more = ("--eps", "1.2") if "published_chain" in source else ()
    done = run("attack" if kind is Attack else "train", *SMALL, OPTION[kind], "mine", *more)
    assert done.code == 2
    assert done.one_error().startswith(f"error: {SINGULAR[kind]} mine: {said}")


def test_a_learner_whose_sensitivity_is_no_number(tmp_path: Path, install: Installer) -> None:
    source = START + MODEL_LEARNER.format(hook="published_sensitivity", body="'3'")
    install(tmp_path / "lab", "lab", {GROUPS[Learner]: {"mine": "lab_mine:Mine"}}, {"lab_mine": source})
    asked = ("compare", *SMALL, "--learner", "mine", "--defense", "clip:norm={clip}", "--no-audit")
    said = "error: learner mine: published_sensitivity gave a str; expected a float"
    assert run(*asked).err.splitlines()[-1] == said


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
