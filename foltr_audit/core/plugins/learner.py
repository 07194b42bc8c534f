"""Learner plug-ins: how interactions change the global model, and what clients send."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from foltr_audit.core.pdgd import PDGDSetting
from foltr_audit.core.plugins.base import Plugin, refuse_unpaired
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.records.round_context import RoundContext
from foltr_audit.core.settings.defaults import SENSITIVITY
from foltr_audit.errors import UsageError
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.core.plugins.defense import Defense
    from foltr_audit.core.records.dataset import Dataset


@dataclass(frozen=True, kw_only=True, eq=False)
class Users:
    """Users who search one data set through one server, and click by a cascade model.

    Attributes:
        data: the data set.
        grades: the grades that decide on clicks, one block of all documents for each combination of click
            model and intent, int8 (combinations * documents,).
        lifts: start of the block of each interaction in `grades`, int64 (N,).
        click: P(click | grade), float64 (G,).
        stop: P(stop | click, grade), float64 (G,).
        clicks: purpose of the random streams of clicks.
        context: the round; its `clients` are the numbers 0 .. N-1 of its interactions.
    """

    data: Dataset
    grades: NDArray[np.int8]
    lifts: Ints
    click: Floats
    stop: Floats
    clicks: str
    context: RoundContext

    def streams(self, purpose: str) -> ClientStreams:
        """One random stream per interaction for a purpose."""
        return self.context.streams(purpose)


@dataclass(frozen=True, kw_only=True, eq=False)
class CentralResult:
    """What a central learner computes from the N interactions of a round.

    Attributes:
        parameters: the model afterwards, float64 (P,).
        state: state of the learner in addition to the model, float64 (S,).
        shown: the lists, int64 (N, k), padded with -1.
        clicks: bool (N, k).
    """

    parameters: Floats
    state: Floats
    shown: Ints
    clicks: Bools


Fact = str | int | float | bool


class Learner(Plugin):
    """How interactions change the global model.

    Subclass `ModelLearner`, `MetricLearner` or `CentralLearner`: they differ in what the server receives.

    Attributes:
        sends: what the server receives: local `models`, online `metrics` or the `clicks` themselves.
        stages: stages of the chain of defenses that can act on its clients.
        lists: how the lists of training rounds are made: `sampled`, `deterministic` or `interleaved`.
        slowness: roughly the time of an interaction divided by that of FPDGD; with a higher value a recorded
            run commits its rounds more often.
    """

    sends: ClassVar[Literal["models", "metrics", "clicks"]]
    stages: ClassVar[frozenset[str]]
    lists: ClassVar[Literal["sampled", "deterministic", "interleaved"]] = "sampled"
    slowness: ClassVar[int] = 1

    interactions: int = Field(4, ge=1, le=10_000, description="interactions B of a client in a round")

    @property
    def facts(self) -> dict[str, Fact]:
        """Public facts about how it learns, for the header of a trace."""
        return {}

    @property
    def ranked_with(self) -> Literal["local", "global"]:
        """The model that ranks lists; with `local` a list may depend on earlier clicks in its message."""
        return "global"

    @property
    def reveals_draws(self) -> bool:
        """Whether whoever has a message knows what its client drew, as from the seed of its clicks.

        Nothing is then proven, whatever is randomised, and a warning says so.
        """
        return False

    def why_not(self, ranker: str) -> str | None:
        """Why it cannot train the ranker with this text, or None if it can."""
        return None

    def published_sensitivity(self, eps: float) -> float:
        """The sensitivity Delta for a claimed epsilon where none is given: twice the norm of a clip."""
        return SENSITIVITY

    def published_chain(self, eps: float, sensitivity: float | None) -> tuple[Defense | str, ...]:
        """The published defenses for a claimed epsilon, or their texts; none for an infinite epsilon.

        Raises:
            UsageError: there are no published defenses, or a value is out of range.
        """
        if math.isinf(eps) and eps > 0:
            return ()
        raise UsageError(f"eps: learner {self.name} has no published defense; expected --defense")


class PDGDStep(NamedTuple):
    """A local step of PDGD, which the compiled loop can take."""

    learning_rate: float
    setting: PDGDSetting


class ModelLearner(Learner):
    """Clients take local steps and send their models."""

    sends: ClassVar[Literal["models", "metrics", "clicks"]] = "models"
    stages: ClassVar[frozenset[str]] = frozenset({"click", "step", "message", "wire", "aggregate"})

    clip_without_pairs: bool = Field(True, description="step defenses also act after a step without pairs")
    rank_with: Literal["local", "global"] | None = Field(
        None, description="model that ranks a client's lists: its local one (if left out), or the global one"
    )

    @field_validator("rank_with")
    @classmethod
    def _usual_one_is_left_out(cls, value: str | None) -> str | None:
        return None if value == "local" else value

    @property
    def ranked_with(self) -> Literal["local", "global"]:
        """The model that ranks the lists of a round; with `global` no list depends on the round's clicks."""
        return self.rank_with or "local"

    @classmethod
    def __pydantic_init_subclass__(cls, **more: object) -> None:
        """Refuse a class whose `compiled_step` may not be what its `local_step` does."""
        super().__pydantic_init_subclass__(**more)
        refuse_unpaired(cls, "learner", "local_step", "compiled_step", ModelLearner)

    @property
    def compiled_step(self) -> PDGDStep | None:
        """The step that the compiled loop takes in place of `local_step`; None if it must call that."""
        return None

    def local_step(
        self,
        parameters: Floats,
        data: Dataset,
        queries: Ints,
        scores: Floats,
        starts: Ints,
        shown: Ints,
        clicks: Bools,
        ranker: Ranker,
    ) -> tuple[Floats, Bools]:
        """Local models after one interaction (C, P), and which clients took a gradient step (C,).

        Args:
            parameters: local models before, (C, P).
            data: the data set that `queries` (C,) index.
            queries: the query of each client.
            scores: scores of all candidates, flat; client c owns `scores[starts[c]:starts[c+1]]`.
            starts: int64 (C + 1,).
            shown: positions of the shown documents inside their query, (C, k), padded with -1.
            clicks: bool (C, k).
            ranker: computes the scores of documents under a model.
        """
        raise NotImplementedError


class MetricLearner(Learner):
    """Clients try perturbed models and send a seed and the online metrics of the shown lists."""

    sends: ClassVar[Literal["models", "metrics", "clicks"]] = "metrics"
    stages: ClassVar[frozenset[str]] = frozenset({"click", "metric"})
    lists: ClassVar[Literal["sampled", "deterministic", "interleaved"]] = "deterministic"

    sigma: float = Field(0.01, gt=0, description="standard deviation of the perturbations")
    antithetic: bool = Field(True, description="half of the interactions use the mirrored perturbation")

    @property
    def draws_from_seed(self) -> bool:
        """Whether the seed of a message also drives the client's queries and clicks, by NumPy's RandomState.

        Then seeds are below 2^32, and equal scores rank as in `kernels.numpy_order.reversed_lists`.
        """
        return False

    @property
    def reveals_draws(self) -> bool:
        """Whether the seed of a message, which the server has, drives its client."""
        return self.draws_from_seed

    @property
    def values(self) -> Floats:
        """The possible values of the metric of one interaction, float64 (v,)."""
        raise NotImplementedError

    def outcomes(self, clicks: Bools) -> Ints:
        """Index into `values` for the clicks (..., k) of each list, int64 (...)."""
        raise NotImplementedError

    def perturbations(self, seeds: NDArray[np.uint64], parameters: int) -> Floats:
        """The perturbation of a model of P parameters for each seed (C,), float64 (C, P)."""
        raise NotImplementedError

    def first_state(self, parameters: int) -> Floats:
        """The server's initial state for a model of P parameters, float64 (S,)."""
        raise NotImplementedError

    def update(
        self, parameters: Floats, state: Floats, seeds: NDArray[np.uint64], messages: Floats
    ) -> tuple[Floats, Floats]:
        """The next global model (P,) and state (S,), from seeds (C,) and mean metrics `messages` (C, V).

        With `antithetic` V is 2 (the perturbed and the mirrored model), else 1.
        """
        raise NotImplementedError


class BatchedSteps(NamedTuple):
    """Local steps of a server on its own model.

    Attributes:
        learner: who takes the steps.
        batch: interactions whose steps are summed.
    """

    learner: ModelLearner
    batch: int


class CentralLearner(Learner):
    """A server that sees every list and every click, and learns from one interaction after another."""

    sends: ClassVar[Literal["models", "metrics", "clicks"]] = "clicks"
    stages: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **more: object) -> None:
        """Refuse a class with code of its own in `learn` that its `batched_steps` would replace."""
        super().__pydantic_init_subclass__(**more)
        replaced = cls.batched_steps is not CentralLearner.batched_steps
        if replaced and cls.learn is not CentralLearner.learn:
            refuse_unpaired(cls, "learner", "learn", "batched_steps", CentralLearner)

    @property
    def batched_steps(self) -> BatchedSteps | None:
        """The local steps that the server takes on its model, in place of `learn`; None if it calls that."""
        return None

    def first_state(self, parameters: int) -> Floats:
        """Its initial state for a model of P parameters, float64 (S,)."""
        return np.empty(0)

    def learn(self, users: Users, queries: Ints, parameters: Floats, state: Floats) -> CentralResult:
        """Learn from the N interactions of a round, with `queries` (N,), in this order.

        Interaction i uses the random streams of client i of `users.context`.
        """
        raise NotImplementedError
