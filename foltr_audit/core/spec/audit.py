"""The audit protocol of a Spec: which claims are checked, in which games, with how many trials."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from foltr_audit.core.spec.base import SpecTable, known_parts, not_deterministic, once
from foltr_audit.core.spec.defaults import TRIALS
from foltr_audit.privacy.observer_views import sees_lists

AuditView = Literal[
    "individual", "individual+lists", "aggregate", "aggregate+lists", "colluding", "colluding+lists"
]
Unit = Literal["click", "interaction", "query", "client"]
Canary = Literal["data:worst", "data:typical", "data:no-click", "data:lists", "message"]


class AuditSpec(SpecTable):
    """The audit protocol.

    Attributes:
        views: the observers' views that are audited, of `privacy.observer_views.VIEWS`. Views with lists are
            left out for unit `client`, since the lists alone identify its input.
        units: units in which neighbouring inputs differ.
        canaries: the neighbouring inputs of the games: `data:worst`, the pair of click logs with the
            largest shift that a search over the data finds; `data:typical`, a random pair, which is
            no evidence for a claim; `data:no-click`, a client without clicks against the log farthest from
            it; `data:lists`, the pair that leads to the most different later lists; `message`, two models at
            opposite ends of the ball that the chain keeps them in.
        models: global models from which the client starts: the `first` one of the run and the `trained` one.
            A canary is searched and played at each. With both models and several messages, each message
            starts from another model along the run.
        claim: epsilon that is checked; None for the claim of the chain.
        claim_on: views to which `claim` applies; None for all. In other views the chain's claim is checked.
        delta: delta of the claim; None for that of the chain's claim, or `DELTA` if the chain has none.
        trials: evaluated trials under each hypothesis; a further quarter of that number chooses the
            threshold.
        confidence: confidence of each lower bound on its own.
        estimator: name of an estimator, or `auto`: `gaussian-dp` where all noise is nearly normal, else
            `clopper-pearson`.
        score: `auto` chooses among the following on separate trials; `likelihood` (the exact likelihood
            ratio), `projection` (least squares onto the shift), `discriminant` (the same, with the
            observed noise), `equality` (coordinates that equal one of the two models bit for bit), `lists`
            (later lists that agree with those of one input), `last-bits` (of float64 numbers with Gaussian
            noise), or the text of an attack.
        messages: number T of rounds in which the client sends a message of the same canary; all T are pooled.
            For units `query` and `client` only, since a click or interaction is part of one message.
        drop_out: share of the cohort whose messages do not arrive.
        colluders: number of other clients that reveal their messages to the server, in the views `colluding`;
            None for all of them.
        interactions: interactions B in each message; None for the learner's number.
        lists: how lists after the first one of a message are made, `deterministic` (None) or `sampled`. With
            `sampled`, views without lists are left out, since their observer does not know the lists.
        on: parts whose queries are searched.
        min_documents: queries with fewer documents are left out.
    """

    views: Annotated[tuple[AuditView, ...], Field(min_length=1), AfterValidator(once)] = (
        "individual",
        "individual+lists",
        "aggregate",
        "aggregate+lists",
    )
    units: Annotated[tuple[Unit, ...], Field(min_length=1), AfterValidator(once)] = ("interaction",)
    canaries: Annotated[tuple[Canary, ...], Field(min_length=1), AfterValidator(once)] = ("data:worst",)
    models: Annotated[tuple[Literal["first", "trained"], ...], Field(min_length=1), AfterValidator(once)] = (
        "first",
        "trained",
    )
    claim: float | None = Field(None, gt=0)
    claim_on: Annotated[tuple[AuditView, ...], Field(min_length=1), AfterValidator(once)] | None = None
    delta: float | None = Field(None, ge=0, lt=1)
    trials: int = Field(TRIALS, ge=20, le=10_000_000)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    estimator: str = Field("auto", min_length=1)
    score: str = Field("auto", min_length=1)
    messages: int = Field(1, ge=1, le=10_000)
    drop_out: float = Field(0.0, ge=0, lt=1)
    colluders: int | None = Field(None, ge=0)
    interactions: int | None = Field(None, ge=1, le=100)
    lists: Annotated[Literal["deterministic", "sampled"] | None, AfterValidator(not_deterministic)] = None
    on: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(known_parts)] = (
        "train",
        "vali",
        "test",
    )
    min_documents: int = Field(10, ge=2)

    @model_validator(mode="after")
    def _units_fit(self) -> AuditSpec:
        if "message" in self.canaries and self.units != ("client",):
            raise ValueError(
                "--canary message replaces the whole message of a client; expected --unit client alone"
            )
        if self.claim_on is not None and self.claim is None:
            raise ValueError("claim_on needs a claim that applies to these views; expected a claim as well")
        if self.colluders is not None and not any(view.startswith("colluding") for view in self.views):
            raise ValueError("--colluders: expected --view colluding, or colluding+lists")
        for unit in self.units:
            if not self.views_of(unit):
                why = "sampled lists can only be audited if seen" if self.lists else "lists reveal all of it"
                with_or_without = "with" if self.lists and unit != "client" else "without"
                raise ValueError(f"--unit {unit}: {why}; expected a --view {with_or_without} lists")
        if self.messages > 1 and not set(self.units) <= {"query", "client"}:
            raise ValueError(
                "--messages: a click or interaction is in one message only; expected --unit query or client"
            )
        return self

    @property
    def along(self) -> int:
        """Number of global models along the run from which messages start; 0 if all start from one model."""
        return self.messages if self.messages > 1 and len(self.models) > 1 else 0

    def views_of(self, unit: str) -> tuple[AuditView, ...]:
        """The views that are audited for a unit."""
        return tuple(
            view
            for view in self.views
            if not (sees_lists(view) and unit == "client") and (sees_lists(view) or not self.lists)
        )
