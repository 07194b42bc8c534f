"""Attack plug-ins: they turn the view of one observer into click scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.rankers import known_ranker
from foltr_audit.core.records.view import (
    STEP_FACTS,
    Inference,
    Knowledge,
    ParticipantEstimates,
    Participation,
    View,
)
from foltr_audit.errors import PluginError, suggest_name
from foltr_audit.utils.arrays import Floats, Ints

UNKNOWN = "the observer does not know: "
"""How a reason why an attack cannot run begins, if it names what is not known."""


class Attack(Plugin):
    """Infers clicks from what one observer sees.

    Attributes:
        reads: kinds of messages that it can read.
        observers: observers whose views it can read: `individual`, `aggregate`.
        asks: its task: `clicks`; `query`, which of several lists a message comes from; `counts`, how many of
            the clients in a sum clicked each document; `intent`, see `IntentAttack`; `client`, see
            `LinkAttack`; `participant`, see `ParticipantAttack`; or a class, a subclass of
            `foltr_audit.judge.task.AttackTask` of its own package.
        needs: names of `Knowledge` that it requires.
        probabilities: whether its scores are probabilities; reports then show their calibration.
        baseline: whether it runs with every other attack, for comparison.
        strongest: whether no attack that knows as much can get more lists exactly right, if the facts that
            it needs are true.
        takes_step: whether it goes by the client step of a view that has one, in place of PDGD.
        ranker_use: what it computes with the ranker: `nothing`, `scores`, or `derivatives` too.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"model", "update"})
    observers: ClassVar[frozenset[str]] = frozenset({"individual"})
    asks: ClassVar[str | type] = "clicks"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "shown"})
    probabilities: ClassVar[bool] = False
    baseline: ClassVar[bool] = False
    strongest: ClassVar[bool] = False
    takes_step: ClassVar[bool] = False
    ranker_use: ClassVar[str] = "derivatives"

    @classmethod
    def __pydantic_init_subclass__(cls, **more: object) -> None:
        """Refuse a class whose `needs` has a name that `Knowledge` lacks."""
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
        if view.observer not in self.observers and not self.baseline:  # a baseline reads no message
            return f"it reads {', '.join(sorted(self.observers))} views, not {view.observer} ones"
        known, needs = view.knowledge, self.needs
        if known.client_step is not None:
            if needs & STEP_FACTS and not self.takes_step:
                return f"it replays PDGD, and the clients take the step {known.client_step.text}"
            needs -= STEP_FACTS
        missing = sorted(name for name in needs if not known.has(name))
        reason = f"{UNKNOWN}{', '.join(missing)}" if missing else None
        return self._why_no_ranker(known) or reason

    def _why_no_ranker(self, known: Knowledge) -> str | None:
        """Why the ranker cannot be used as this attack does, or None."""
        step = known.client_step
        if known_ranker(known.ranker) or self.ranker_use == "nothing" or (step and self.takes_step):
            return None
        if step is not None and self.ranker_use == "scores" and step.gives_scores:
            return None
        why = f"ranker {known.ranker!r} is unknown, so scores cannot be computed from a model"
        return why if step is None else f"{why}, and client step {step.text} gives none"

    def exact_posterior(self, view: View) -> bool:
        """Whether its `patterns` are the exact posterior given everything in the view."""
        return False

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """Scores and guesses for every shown document of a view, which does not contain the true clicks."""
        raise NotImplementedError


class IntentAttack(Attack):
    """Infers the intent of a client.

    Its `answer` is the log likelihood of each message under each intent, up to a constant for each message,
    float64 (n, I).
    """

    asks: ClassVar[str | type] = "intent"

    messages: int = Field(
        1, ge=1, le=10_000, description="messages known to come from one client, which are combined"
    )
    shares: str = Field("even", description="prior weights of the intents, e.g. 2/1/1, or even")

    @field_validator("shares")
    @classmethod
    def _positive(cls, text: str) -> str:
        try:
            right = text == "even" or all(0 < float(part) < np.inf for part in text.split("/"))
        except ValueError:
            right = False
        if not right:
            raise ValueError("expected positive numbers separated by /, or even")
        return text

    def prior(self, intents: int) -> Floats:
        """Prior probability of each intent, float64 (I,); even if the number of `shares` does not fit."""
        shares = np.ones(intents)
        if self.shares != "even" and self.shares.count("/") == intents - 1:
            shares = np.array([float(part) for part in self.shares.split("/")])
        return np.asarray(shares / shares.sum())

    def why_not(self, view: View) -> str | None:
        """Also refuses `shares` for another number of intents."""
        reason = super().why_not(view)
        if reason is not None or view.intent_labels is None or self.shares == "even":
            return reason
        given, intents = self.shares.count("/") + 1, view.intent_labels.shape[3]
        return None if given == intents else f"{given} shares for {intents} intents"


class LinkAttack(Attack):
    """Infers which messages of two rounds come from the same client.

    Its `answer` has properties of each message that may identify the sender, in an order that the attack
    chooses, float64 (n, F); NaN where a property is unknown.
    """

    asks: ClassVar[str | type] = "client"

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        """Score that each message and each of its candidates come from one client, (n, m).

        The log likelihood ratio of one client to two, up to a constant for each of the n messages.

        Args:
            first: traits of n messages of one round, (n, F).
            second: traits of all N messages of another round, (N, F).
            offered: the m candidates of each message, as indices into the N messages, int64 (n, m).
        """
        raise NotImplementedError


class ParticipantAttack(Attack):
    """Infers what lasts about each client from the sums of the rounds in which it took part.

    Its `answer` describes each sum, in an order that the attack chooses, float64 (n, F); F may differ from
    round to round.
    """

    asks: ClassVar[str | type] = "participant"
    observers: ClassVar[frozenset[str]] = frozenset({"aggregate", "individual"})

    def participants(self, sums: Sequence[Floats], taking_part: Participation) -> ParticipantEstimates:
        """Estimates of the mean update, and maybe of the intent, of each client.

        Args:
            sums: what `infer` answered on the sum of each of R rounds, (F,) each.
            taking_part: who took part in these rounds.
        """
        raise NotImplementedError
