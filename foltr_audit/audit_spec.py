"""The audit protocol of a Spec: which claims are checked, in which games, with how many trials."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from foltr_audit.spec_table import SpecTable, known_parts, once

AuditView = Literal["individual", "aggregate", "colluding"]
Unit = Literal["click", "interaction", "query", "client"]
Canary = Literal["data:worst", "data:typical", "data:no-click", "message"]


class AuditSpec(SpecTable):
    """The audit protocol.

    Attributes:
        views: whose observations are audited, of `records.observers.VIEWS`.
        units: what neighbouring inputs differ in, of `records.privacy.UNITS`.
        canaries: neighbouring inputs that are played: `data:worst`, the pair of click logs with the
            largest shift that a search over the data finds; `data:typical`, a random pair, which is no
            evidence for a claim; `data:no-click`, a client without clicks against the log farthest from
            it; `message`, two models at opposite ends of the ball that the chain keeps them in.
        models: global models that the client may start from: the `first` one of the run and the `trained`
            one. A canary is searched at each, and played where its shift is largest.
        claim: epsilon that is checked; None for what the chain itself claims.
        delta: delta of the claim; None for what the chain itself claims.
        trials: evaluated trials under each hypothesis; a quarter as many more choose the threshold.
        confidence: of each lower bound by itself.
        estimator: name of an estimator, or `auto`: `gaussian-dp` where all noise is Gaussian, else
            `clopper-pearson`.
        score: `auto` chooses on the separate part among what follows; `likelihood` (the exact likelihood
            ratio), `projection` (least squares onto the shift), `discriminant` (the same, with the noise
            as it is seen), `equality` (coordinates that equal one of the two models bit for bit), or the
            text of an attack.
        messages: rounds T in which the client sends a message of the same canary; all T are pooled. For
            units `query` and `client`; a click or interaction is part of one message.
        drop_out: share of the cohort whose messages do not arrive.
        interactions: interactions B behind each message.
        on: parts whose queries are searched.
        min_documents: shorter queries are left out.
    """

    views: Annotated[tuple[AuditView, ...], Field(min_length=1), AfterValidator(once)] = (
        "individual",
        "aggregate",
    )
    units: Annotated[tuple[Unit, ...], Field(min_length=1), AfterValidator(once)] = ("interaction",)
    canaries: Annotated[tuple[Canary, ...], Field(min_length=1), AfterValidator(once)] = ("data:worst",)
    models: Annotated[tuple[Literal["first", "trained"], ...], Field(min_length=1), AfterValidator(once)] = (
        "first",
        "trained",
    )
    claim: float | None = Field(None, gt=0)
    delta: float | None = Field(None, ge=0, lt=1)
    trials: int = Field(10_000, ge=20, le=10_000_000)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    estimator: str = Field("auto", min_length=1)
    score: str = Field("auto", min_length=1)
    messages: int = Field(1, ge=1, le=10_000)
    drop_out: float = Field(0.0, ge=0, lt=1)
    interactions: int = Field(1, ge=1, le=100)
    on: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(known_parts)] = ("vali", "test")
    min_documents: int = Field(10, ge=2)

    @model_validator(mode="after")
    def _units_fit(self) -> AuditSpec:
        if "message" in self.canaries and self.units != ("client",):
            raise ValueError(
                "--canary message replaces all that a client sends; expected --unit client alone"
            )
        if self.messages > 1 and not set(self.units) <= {"query", "client"}:
            raise ValueError(
                "--messages: a click or interaction is in one message only; expected --unit query or client"
            )
        return self
