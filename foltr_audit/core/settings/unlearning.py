"""The unlearning protocol of a Spec: clients that leave, and how the trained model forgets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, Field

from foltr_audit.core.settings.base import Flag, Several, SpecTable

UnlearningMethod = Literal["none", "retrain", "fed-eraser", "fed-remove", "fine-tune", "gradient-ascent"]

METHODS: Final[tuple[UnlearningMethod, ...]] = get_args(UnlearningMethod)

FROM_MESSAGES: Final = ("fed-eraser", "fed-remove", "gradient-ascent")
"""Methods that need single messages of the training, which secure aggregation hides from the server."""

FEW_CLIENTS: Final = 20
"""Clients of a federation that some leave, if none are given: what one client leaves shows among few."""


class UnlearningSpec(SpecTable):
    """Clients leave after the training, and the server makes the trained model forget them.

    Every method is applied to many trainings with these clients, and to as many without them. In all of them
    the clients ask the same queries; lists, clicks, cohorts and noise are drawn anew.
    """

    clients: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(min_length=1),
        AfterValidator(lambda ids: tuple(sorted(set(ids)))),
        Flag("client"),
    ] = Field((0,), description="Id of a client that leaves, from 0.")
    methods: Annotated[Several[UnlearningMethod] | None, Flag("method", "all that can run")] = Field(
        None, description="none, retrain, fed-eraser, fed-remove, fine-tune, gradient-ascent, or all."
    )
    calibrate_every: int = Field(
        2, ge=1, le=10_000_000, description="fed-eraser: store and calibrate every K-th round."
    )
    calibration_interactions: Annotated[int | None, Flag(default="half of --interactions")] = Field(
        None, ge=1, description="fed-eraser: interactions of a client that give the direction of an update."
    )
    fine_tune_rounds: int = Field(
        10, ge=1, le=10_000_000, description="Rounds without these clients in fine-tune and gradient-ascent."
    )
    ascent_rounds: int = Field(
        5,
        ge=1,
        le=10_000_000,
        description="gradient-ascent: rounds of reversed steps of a client that leaves.",
    )
    ball: float = Field(
        0.3,
        gt=0,
        le=1000,
        description="gradient-ascent: radius of the ball, as a share of the distance from the first model to "
        "the reference model.",
    )
    trials: int = Field(
        200,
        ge=100,
        le=1_000_000,
        description="Evaluated trainings of the game, with and without these clients.",
    )
    delta: float = Field(0.0, ge=0, lt=1, description="Delta of the lower bounds on epsilon.")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of the lower bounds on epsilon.")

    def chosen(self, *, hidden: bool) -> tuple[UnlearningMethod, ...]:
        """The methods that run, in the order of `METHODS`; `hidden`: the server gets no single messages."""
        wanted: Sequence[str] = self.methods or [
            name for name in METHODS if not (hidden and name in FROM_MESSAGES)
        ]
        return tuple(name for name in METHODS if name in wanted)

    def why_not(self, clients: int, *, hidden: bool) -> str | None:
        """Why clients cannot leave a federation of so many, or None if they can; `hidden` as in `chosen`."""
        if self.clients[-1] >= clients:
            return f"client {self.clients[-1]}: expected an id below {clients}, the number of clients"
        if len(self.clients) == clients:
            return f"clients: all {clients} leave; expected one at least that stays"
        needy = [name for name in self.chosen(hidden=hidden) if hidden and name in FROM_MESSAGES]
        if needy:
            able = ", ".join(name for name in METHODS if name not in FROM_MESSAGES)
            return f"method {needy[0]}: secure aggregation hides the messages that it needs; expected {able}"
        return None
