"""Attack plug-ins: one observer's view in, click scores out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.rankers import known_ranker
from foltr_audit.core.records.view import Inference, Knowledge, View
from foltr_audit.errors import PluginError, suggest_name
from foltr_audit.utils.arrays import Floats, Ints


class Attack(Plugin):
    """Reads clicks out of what one observer sees.

    Attributes:
        reads: message kinds that it understands.
        observers: whose views it understands: `individual`, `aggregate`.
        asks: what it answers: `clicks`; `query`, which of several lists a message came from; `counts`, how
            many clients clicked each document of a sum; `intent`, see `IntentAttack`; or `client`, see
            `LinkAttack`.
        needs: names of `Knowledge` that it cannot do without.
        probabilities: whether its scores are probabilities, whose calibration is then reported.
        baseline: whether it is shown beside every other attack.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"model", "update"})
    observers: ClassVar[frozenset[str]] = frozenset({"individual"})
    asks: ClassVar[Literal["clicks", "query", "counts", "intent", "client"]] = "clicks"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "shown"})
    probabilities: ClassVar[bool] = False
    baseline: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **more: Any) -> None:
        """Refuse a class that needs what is no name of `Knowledge`."""
        super().__pydantic_init_subclass__(**more)
        who = f"attack {getattr(cls, 'name', cls.__name__)}"
        if not isinstance(cls.needs, frozenset | set):
            raise PluginError(f"{who}: needs={cls.needs!r}; expected a frozenset of names")
        known = [each.name for each in fields(Knowledge)]
        unknown = sorted(cls.needs - set(known))
        if unknown:
            raise PluginError(f"{who}: it needs {unknown[0]!r}; {suggest_name(unknown[0], known)}")

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

    def exact_posterior(self, view: View) -> bool:
        """Whether the patterns that it answers are the true posterior given all that a view knows."""
        return False

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """Scores and guesses for every shown document of a view. It has no access to the truth."""
        raise NotImplementedError


class IntentAttack(Attack):
    """Tells with which intent a client searched, from the likelihood of its messages under each."""

    asks: ClassVar[Literal["clicks", "query", "counts", "intent", "client"]] = "intent"

    messages: int = Field(
        1,
        ge=1,
        le=10_000,
        description="messages of one client, known to be of one, that are weighed together",
    )
    shares: str = Field("even", description="shares of the intents before any message, e.g. 2/1/1, or even")

    @field_validator("shares")
    @classmethod
    def _positive(cls, text: str) -> str:
        try:
            numbers = [float(part) for part in text.split("/")] if text != "even" else [1.0]
        except ValueError:
            numbers = []
        if not numbers or not all(0 < number < np.inf for number in numbers):
            raise ValueError("expected positive numbers with / between them, or even")
        return text

    def prior(self, intents: int) -> Floats:
        """Probability of each intent before any message, float64 (I,); ones that do not fit count as even."""
        shares = np.ones(intents)
        if self.shares != "even" and self.shares.count("/") == intents - 1:
            shares = np.array([float(part) for part in self.shares.split("/")])
        return np.asarray(shares / shares.sum())

    def why_not(self, view: View) -> str | None:
        """Also refuses shares of another number of intents."""
        reason = super().why_not(view)
        if reason is not None or view.intent_labels is None or self.shares == "even":
            return reason
        given, intents = self.shares.count("/") + 1, view.intent_labels.shape[3]
        return None if given == intents else f"{given} shares for {intents} intents"


class LinkAttack(Attack):
    """Tells which messages of two rounds are of the same client, from what its answers call `traits`."""

    asks: ClassVar[Literal["clicks", "query", "counts", "intent", "client"]] = "client"

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        """How much each of some messages and each of those offered look like one client's, (n, m).

        Log likelihood ratio of one client against two, up to a number for each of the n messages.

        Args:
            first: traits of n messages of one round, (n, F).
            second: traits of all N messages of another round, (N, F).
            offered: which of these N may be of the same client, int64 (n, m).
        """
        raise NotImplementedError
