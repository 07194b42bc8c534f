"""Learners, scenarios and click models that break their contract fail the suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from foltr_audit.core.plugins import (
    ClickModel,
    Environment,
    IntentPeriod,
    MetricLearner,
    ModelLearner,
    Population,
    Scenario,
    ScenarioContext,
    Trait,
    TraitValue,
)
from foltr_audit.rng import ClientStreams
from foltr_audit.testing import ContractError, check_click_model, check_learner, check_scenario
from foltr_audit.utils.arrays import Bools, Floats, Ints

# --- scenarios ----------------------------------------------------------------------------------------


class OverTime(Scenario):
    """Two intents at first, the others later."""

    name: ClassVar[str] = "over-time"

    def environment(self, context: ScenarioContext) -> Environment:
        return Environment(
            knots=np.array([0.0, 200.0]),
            start=np.array([self.first(), [0.0, 0.0, 0.5, 0.5]]),
            stop=np.array([self.first(), [0.0, 0.0, 0.5, 0.5]]),
            periods=self.periods(context.total),
        )

    def first(self) -> list[float]:
        return [0.5, 0.5, 0.0, 0.0]

    def periods(self, total: int) -> tuple[IntentPeriod, ...]:
        return (IntentPeriod(0, 200, None), IntentPeriod(200, total, None))


class Negative(OverTime):
    """A negative weight."""

    name: ClassVar[str] = "negative"

    def first(self) -> list[float]:
        return [1.5, -0.5, 0.0, 0.0]


class WithTraits(Scenario):
    """Two groups of clients."""

    name: ClassVar[str] = "with-traits"

    values: ClassVar[tuple[TraitValue, ...]] = (TraitValue(name="a"), TraitValue(name="b"))

    def population(self, before: Population, context: ScenarioContext) -> Population:
        return before.with_trait(Trait(name="mine", values=self.values))


class Forgets(WithTraits):
    """Drops the traits before it."""

    name: ClassVar[str] = "forgets"

    def population(self, before: Population, context: ScenarioContext) -> Population:
        return super().population(Population(), context)


class OwnTwin(WithTraits):
    """Is compared with itself."""

    name: ClassVar[str] = "own-twin"

    def twins(self, context: ScenarioContext) -> dict[str, str]:
        return {"the same": self.text}


@pytest.mark.parametrize(
    ("cls", "check", "why"),
    [
        (Negative, "the intents over time", r"no negative probability of an intent; found -0\.5"),
        (Forgets, "the clients", "keep the traits of earlier scenarios"),
        (OwnTwin, "its twins", "expected another scenario as twin"),
    ],
)
def test_a_sloppy_scenario_is_found(cls: type[Scenario], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"scenario {cls.name}: {check}: .*{why}"):
        check_scenario(cls)


def test_honest_scenarios_pass() -> None:
    check_scenario(OverTime)
    check_scenario(WithTraits)


# --- learners -----------------------------------------------------------------------------------------


class Steps(ModelLearner):
    """Moves a model towards the features of clicked documents."""

    name: ClassVar[str] = "steps"

    def local_step(self, *given: Any) -> tuple[Floats, Bools]:
        parameters, data, queries, _, _, shown, clicks, ranker = given
        rows = data.offsets[queries][:, np.newaxis] + np.maximum(shown, 0)
        slopes = ranker.jacobian(parameters, data.features[rows])
        several = (shown >= 0).sum(axis=1) > 1
        weights = np.where(clicks & several[:, np.newaxis], 0.1, 0.0)[:, :, np.newaxis]
        change = self.changed((slopes * weights).sum(axis=1), several & clicks.any(axis=1))
        return parameters + change, np.any(change != 0, axis=1)

    def changed(self, change: Floats, learns: Bools) -> Floats:
        return change


def changing(made: Callable[[Floats], Floats]) -> type[ModelLearner]:
    """A learner whose steps are changed."""
    parts = {"name": "sloppy", "changed": lambda self, change, learns: made(change), "__module__": __name__}
    return type("Sloppy", (Steps,), {**parts, "__doc__": "Changes its steps."})


BY_COHORT = changing(lambda change: change / max(1, len(change)))
DRIFTS = changing(lambda change: change + 0.01)
UNSEEDED = changing(lambda change: change * np.random.default_rng().random())


class ByRound(MetricLearner):
    """Perturbs by the place of a client."""

    name: ClassVar[str] = "by-round"

    @property
    def values(self) -> Floats:
        return np.array([0.0, 1.0])

    def outcomes(self, clicks: Bools) -> Ints:
        return np.asarray(clicks.any(axis=-1), dtype=np.int64)

    def perturbations(self, seeds: np.ndarray[Any, Any], parameters: int) -> Floats:
        return np.tile(np.arange(len(seeds), dtype=np.float64)[:, np.newaxis], (1, parameters))

    def first_state(self, parameters: int) -> Floats:
        return np.zeros(1)

    def update(
        self, parameters: Floats, state: Floats, seeds: np.ndarray[Any, Any], messages: Floats
    ) -> tuple[Floats, Floats]:
        return parameters + messages[:1].sum(), state


@pytest.mark.parametrize(
    ("cls", "check", "why"),
    [
        (BY_COHORT, "does not depend on other clients", "expected the same step for a client alone"),
        (DRIFTS, "a local step", "that a client learns nothing from a list with no click"),
        (UNSEEDED, "same seed, same bytes", "the same round from the same seed; found another"),
        (ByRound, "metrics and perturbations", "that a perturbation follows from its seed"),
        (ByRound, "the server's update", "the same update for messages in another order"),
    ],
)
def test_a_sloppy_learner_is_found(cls: type[ModelLearner | MetricLearner], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"learner {cls.name}: .*{check}: .*{why}"):
        check_learner(cls)


def test_an_honest_learner_passes() -> None:
    check_learner(Steps)


# --- click models -------------------------------------------------------------------------------------


class Often(ClickModel):
    """Clicks on every third document or so."""

    name: ClassVar[str] = "often"
    clicked: ClassVar[Callable[[Ints, ClientStreams, int], Bools]]

    def click(self, labels: Ints, largest_label: int, streams: ClientStreams, step: int) -> Bools:
        return np.asarray(type(self).clicked(labels, streams, step))


def clicking(made: Callable[[Ints, ClientStreams, int], Bools]) -> type[ClickModel]:
    """A click model of such clicks."""
    parts = {"name": "sloppy", "clicked": staticmethod(made), "__module__": __name__}
    return type("Sloppy", (Often,), {**parts, "__doc__": "Clicks in another way."})


def drawn(labels: Ints, streams: ClientStreams, step: int) -> Bools:
    return np.asarray(streams.uniform(labels.shape[1], first=labels.shape[1] * step) < 0.3)


Often.clicked = staticmethod(lambda labels, streams, step: drawn(labels, streams, step) & (labels >= 0))
SAME_EVERY_STEP = clicking(lambda labels, streams, step: drawn(labels, streams, 0) & (labels >= 0))
SHARED = clicking(lambda labels, streams, step: drawn(labels, streams, step)[:1] & (labels >= 0))
EVERYWHERE = clicking(lambda labels, streams, step: np.ones(labels.shape, dtype=np.bool_))


@pytest.mark.parametrize(
    ("cls", "check", "why"),
    [
        (SAME_EVERY_STEP, "every step draws anew", "the same clicks in two steps"),
        (SHARED, "clicks do not depend on other clients", "found others"),
        (EVERYWHERE, "clicks on lists", "expected no click at the padding; found one"),
    ],
)
def test_a_sloppy_click_model_is_found(cls: type[ClickModel], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"click model {cls.name}: {check}: .*{why}"):
        check_click_model(cls)


def test_an_honest_click_model_passes() -> None:
    check_click_model(Often)
