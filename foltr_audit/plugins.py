"""The API that plug-ins are written against.

A plug-in is a small frozen object that validates its own parameters (pydantic). Its text form is
`name` or `name:parameter=value,parameter=value`; a chain of defenses joins them with `+`.
Plug-ins are found by entry points: see `foltr_audit.registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from foltr_audit.noise_laws import AddedNoise
from foltr_audit.rankers import Ranker, known_ranker
from foltr_audit.records.context import RoundContext
from foltr_audit.records.privacy import Ball, Bounded, Noised, Opaque, PrivacyClaim, PrivacyEvent
from foltr_audit.records.view import Inference, Knowledge, View
from foltr_audit.records.wired import Wired
from foltr_audit.rng import ClientStreams
from foltr_audit.secure_aggregation.fixed_point import FixedPoint

if TYPE_CHECKING:
    from foltr_audit.records.dataset import Dataset

__all__ = [
    "AggregateDefense",
    "Attack",
    "Ball",
    "ClickDefense",
    "ClickModel",
    "Defense",
    "Inference",
    "Knowledge",
    "Learner",
    "MessageDefense",
    "Plugin",
    "PrivacyClaim",
    "PrivacyEvent",
    "RoundContext",
    "Scenario",
    "StepDefense",
    "View",
    "WireDefense",
    "Wired",
    "plain",
]


class Plugin(BaseModel):
    """A frozen object with a name and validated parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: ClassVar[str]
    status: ClassVar[Literal["stable", "experimental"]] = "stable"

    @property
    def text(self) -> str:
        """The canonical text form, e.g. `clip:norm=3`."""
        values = self.model_dump()
        return self._written({key: plain(value) for key, value in values.items() if value is not None})

    @property
    def label(self) -> str:
        """The text form with only the parameters that are not at their default, e.g. `olsr`."""
        given = {
            key: plain(getattr(self, key))
            for key, info in type(self).model_fields.items()
            if getattr(self, key) is not None and (info.is_required() or getattr(self, key) != info.default)
        }
        return self._written(given)

    def _written(self, given: dict[str, str]) -> str:
        listed = ",".join(f"{key}={given[key]}" for key in sorted(given))
        return f"{self.name}:{listed}" if listed else self.name


def plain(value: object) -> str:
    """A parameter value as the text that reads back as it, e.g. `1.2`, `3`, `true`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


class ClickModel(Plugin):
    """How a simulated user clicks on a shown list."""

    def click(
        self, labels: NDArray[np.int64], largest_label: int, streams: ClientStreams, step: int
    ) -> NDArray[np.bool_]:
        """Clicks on each client's list.

        Args:
            labels: grade of each shown document, (C, k), -1 at the padding.
            largest_label: highest grade of the whole collection: which published setting applies.
            streams: one random stream per client.
            step: number of the local step; draws of different steps must not overlap.

        Returns:
            bool (C, k), False at the padding.
        """
        raise NotImplementedError


class Scenario(Plugin):
    """Who the clients are: which client asks which query."""

    def queries(self, data: Dataset, interactions: int, context: RoundContext) -> NDArray[np.int64]:
        """Indices of the training queries each client asks this round, int64 (C, interactions)."""
        raise NotImplementedError


class Learner(Plugin):
    """How a client turns one interaction into a change of its local model."""

    def local_step(
        self,
        parameters: NDArray[np.float64],
        data: Dataset,
        queries: NDArray[np.int64],
        scores: NDArray[np.float64],
        starts: NDArray[np.int64],
        shown: NDArray[np.int64],
        clicks: NDArray[np.bool_],
        ranker: Ranker,
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Local models after one interaction (C, P), and which clients took a gradient step (C,).

        Args:
            parameters: local models before, (C, P).
            data: the data set that `queries` (C,) index.
            queries: the query of each client.
            scores: scores of all candidates, flat; client c owns `scores[starts[c]:starts[c+1]]`.
            starts: int64 (C + 1,).
            shown: positions of the shown documents inside their query, (C, k), padded with -1.
            clicks: bool (C, k).
            ranker: what the models score documents with.
        """
        raise NotImplementedError


class Defense(Plugin):
    """One link of the chain. Subclass the class of the stage that it acts in."""

    stage: ClassVar[str]

    def acts_in(self, stage: str) -> bool:
        """Whether it acts in a stage; a subclass of two stages' classes may let a parameter choose."""
        return stage == self.stage

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does to a message, for accounting; what says nothing costs every bound before it."""
        del context
        return (Opaque(mechanism=self.name),)

    def events_in(self, stage: str, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """What it does in one of the stages that it acts in; one that acts in several tells them apart."""
        del stage
        return self.events(context)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        """What its authors claim for one round; nothing by default."""
        del context
        return ()


class ClickDefense(Defense):
    """Changes clicks before the client learns from them."""

    stage: ClassVar[str] = "click"

    def apply(
        self, clicks: NDArray[np.bool_], shown: NDArray[np.int64], step: int, context: RoundContext
    ) -> NDArray[np.bool_]:
        """New clicks, bool (C, k); those at the padding of `shown` (C, k) must stay False."""
        raise NotImplementedError


class StepDefense(Defense):
    """Acts on the local models after every local step."""

    stage: ClassVar[str] = "step"

    def apply(self, parameters: NDArray[np.float64], context: RoundContext) -> NDArray[np.float64]:
        """New local models, float64 (C, P); a row that comes back equal was left alone.

        Without code of its own, a defense that declares a `ball` scales models into it, and the
        engine does so in its fastest form.
        """
        from foltr_audit.kernels.ball import projected

        del context
        if self.ball is None:
            raise NotImplementedError
        return projected(np.ascontiguousarray(parameters), self.ball.norm, self.ball.ord)

    @property
    def ball(self) -> Ball | None:
        """The ball that models are kept in, if that is all this defense does."""
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """The bound of its ball, if that is all it does."""
        if self.ball is None:
            return super().events(context)
        return (Bounded(norm=self.ball.norm, ord=self.ball.ord, of="model"),)


class MessageDefense(Defense):
    """Acts on what a client is about to send: its local model after the last step."""

    stage: ClassVar[str] = "message"

    def apply(self, models: NDArray[np.float64], context: RoundContext) -> NDArray[np.float64]:
        """New models to send, float64 (C, P). The difference to `context.parameters` is the update."""
        raise NotImplementedError

    def law(self, context: RoundContext) -> AddedNoise | None:
        """The law of the noise that it adds to each coordinate of one message, as everybody may know it."""
        del context
        return None

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Noise of its law, if it declares one."""
        law = self.law(context)
        return super().events(context) if law is None else (Noised(law=law),)


class WireDefense(Defense):
    """Acts on the messages on their way to the server."""

    stage: ClassVar[str] = "wire"

    @property
    def encoding(self) -> FixedPoint | None:
        """How it encodes messages as integers, if it does; it then gets them as float64, not rounded."""
        return None

    def apply(
        self, messages: NDArray[np.float64], survivors: NDArray[np.bool_], context: RoundContext
    ) -> Wired:
        """What the server receives of a cohort's messages (C, P), of which some are lost (C,) already."""
        raise NotImplementedError

    def alone(self, messages: NDArray[np.float64], context: RoundContext) -> Wired:
        """What the server receives of clients that each take part in a cohort of `context.shares` of its own.

        So are fresh clients attacked, one by one. By default as if they were one cohort.
        """
        return self.apply(messages, np.ones(messages.shape[0], dtype=np.bool_), context)

    def client_seconds(self, clients: int, size: int) -> dict[str, float]:
        """Seconds of one client's work in a cohort for a message of P = `size`, by stage, measured anew."""
        del clients, size
        return {}


class AggregateDefense(Defense):
    """Replaces or changes the server's average.

    Attributes:
        works_on_sums: it does without single messages, which secure aggregation hides.
    """

    works_on_sums: ClassVar[bool] = False
    stage: ClassVar[str] = "aggregate"

    def apply(
        self,
        aggregate: NDArray[np.float64],
        messages: NDArray[np.float64],
        weights: NDArray[np.float64],
        context: RoundContext,
    ) -> NDArray[np.float64]:
        """The new global model or update, float64 (P,).

        `messages` (S, P) are the ones that arrived, with their weights (S,) that sum to 1, and
        `aggregate` is what the stages before have made of them.
        """
        raise NotImplementedError


class Attack(Plugin):
    """Reads clicks out of what one observer sees.

    Attributes:
        reads: message kinds that it understands.
        observers: whose views it understands: `individual`, `aggregate`.
        asks: what it answers: `clicks`; `query`, which of several lists a message came from; or
            `counts`, how many clients clicked each document of a sum.
        needs: names of `Knowledge` that it cannot do without.
        probabilities: whether its scores are probabilities, whose calibration is then reported.
        baseline: whether it is shown beside every other attack.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"model", "update"})
    observers: ClassVar[frozenset[str]] = frozenset({"individual"})
    asks: ClassVar[Literal["clicks", "query", "counts"]] = "clicks"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "shown"})
    probabilities: ClassVar[bool] = False
    baseline: ClassVar[bool] = False

    def why_not(self, view: View) -> str | None:
        """Why this attack cannot run on a view, or None if it can."""
        if view.kind not in self.reads:
            return f"it reads messages of kind {', '.join(sorted(self.reads))}, not {view.kind}"
        if view.observer not in self.observers:
            return f"it reads {', '.join(sorted(self.observers))} views, not {view.observer} ones"
        if not known_ranker(view.knowledge.ranker):
            return f"no ranker {view.knowledge.ranker!r} is known, so how scores change with the model is not"
        missing = sorted(name for name in self.needs if not view.knowledge.has(name))
        return f"the observer does not know: {', '.join(missing)}" if missing else None

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """Scores and guesses for every shown document of a view. It has no access to the truth."""
        raise NotImplementedError
