"""The audit protocol of a Spec: which claims are checked, in which games, with how many trials."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from foltr_audit.core.settings.base import Flag, Parts, Several, SpecTable, left_out
from foltr_audit.core.settings.defaults import TRIALS
from foltr_audit.privacy.observer_views import sees_lists

FUNCTION_TRIALS = 10_000


class FunctionAuditSpec(SpecTable):
    """The settings of an audit of one function on one pair of neighbouring inputs.

    Besides the `trials`, half of that number are learned from, and a quarter choose score and threshold.
    """

    eps: Annotated[float | None, Flag(default="none, and the lower bound alone is shown")] = Field(
        None, gt=0, description="Epsilon that is claimed."
    )
    delta: float = Field(0.0, ge=0, lt=1, description="Delta of the claim.")
    trials: int = Field(
        FUNCTION_TRIALS, ge=100, le=10_000_000, description="Evaluated trials with each of the two inputs."
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of the lower bound.")
    estimator: str = Field(
        "one-run",
        min_length=1,
        description="one-run, clopper-pearson or betting; for normal noise gaussian-dp or one-run-fdp.",
    )
    seed: int = Field(1, ge=0, lt=2**63, description="Seed of the random generators of all trials.")

    @property
    def learning(self) -> int:
        """Trials with each input that scores are learned from."""
        return self.trials // 2

    @property
    def choosing(self) -> int:
        """Trials with each input that choose score and threshold."""
        return max(60, self.trials // 4)

    @property
    def calls(self) -> int:
        return self.learning + self.choosing + self.trials


AuditView = Literal[
    "individual", "individual+lists", "aggregate", "aggregate+lists", "colluding", "colluding+lists"
]
Unit = Literal["click", "interaction", "query", "client"]
Canary = Literal["data:worst", "data:typical", "data:no-click", "data:lists", "message"]


class AuditSpec(SpecTable):
    """The audit protocol.

    Views with lists are left out for unit `client`, since the lists alone identify its input; with sampled
    lists, views without lists are left out, since their observer does not know the lists. A canary is
    searched and played at each of the `models`; with both and several messages, each message starts from
    another model along the run. Besides the `trials`, a further quarter of that number chooses the threshold;
    with `stop_early` a sixteenth.
    All `messages` of a client are pooled, for units `query` and `client` only: a click or interaction is part
    of one message. The chain's claim is checked in views that `claim_on` leaves out.
    """

    views: Annotated[Several[AuditView], Flag("view", "individual and aggregate, with and without lists")] = (
        Field(
            ("individual", "individual+lists", "aggregate", "aggregate+lists"),
            description="What the server sees. individual: each message; aggregate: their sum; colluding: "
            "also what other clients sent. With +lists it sees the shown lists too.",
        )
    )
    units: Annotated[Several[Unit], Flag("unit")] = Field(
        ("interaction",),
        description="What neighbouring inputs differ in: click, interaction, query or client.",
    )
    canaries: Annotated[Several[Canary], Flag("canary")] = Field(
        ("data:worst",),
        description="data:worst (found by search), data:typical (no evidence for a claim), "
        "data:no-click, data:lists (the later lists differ most) or message (two extreme models; unit "
        "client).",
    )
    models: Annotated[Several[Literal["first", "trained"]], Flag("model", "both")] = Field(
        ("first", "trained"),
        description="Global models that messages start from: first (of the run) or trained. Each model has "
        "its own game; with several --messages, trained means the models of rounds along the run.",
    )
    claim: Annotated[float | None, Flag(default="the one that the chain claims")] = Field(
        None, gt=0, description="Epsilon to check."
    )
    claim_on: Several[AuditView] | None = None
    delta: Annotated[float | None, Flag(default="the one that the chain claims, or 1e-5 without a claim")] = (
        Field(None, ge=0, lt=1, description="Delta of the claim.")
    )
    trials: int = Field(
        TRIALS, ge=20, le=10_000_000, description="Evaluated trials per hypothesis of an audit."
    )
    stop_early: Annotated[bool | None, left_out(False), Flag(default="no")] = Field(
        None,
        description="Play trials in growing batches, and stop as soon as they refute the claim, or show that "
        "all --trials will hardly do so. Takes estimator betting, whose bound is valid at every stop.",
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of each lower bound.")
    estimator: Annotated[
        str,
        Flag(default="gaussian-dp for a delta above 0 and noise that is normal or nearly so, else one-run"),
    ] = Field(
        "auto", min_length=1, description="one-run, clopper-pearson, gaussian-dp, one-run-fdp or betting."
    )
    score: str = Field(
        "auto",
        min_length=1,
        description="What distinguishes the two inputs: likelihood, projection, discriminant, equality, "
        "lists, last-bits, an attack such as lad, or auto, the best on separate trials.",
    )
    messages: int = Field(
        1,
        ge=1,
        le=10_000,
        description="Number of rounds in which the client sends. The audit pools all its messages.",
    )
    drop_out: float = Field(0.0, ge=0, lt=1, description="Share of the cohort whose messages do not arrive.")
    colluders: Annotated[int | None, Flag(default="all")] = Field(
        None, ge=0, description="With --view colluding: number of other clients that collude with the server."
    )
    interactions: Annotated[int | None, Flag("canary-interactions", "those of the learner")] = Field(
        None, ge=1, le=100, description="Interactions in each message."
    )
    lists: Annotated[
        Literal["deterministic", "sampled"] | None, left_out("deterministic"), Flag(default="deterministic")
    ] = Field(
        None, description="How the lists after the first of a message are made: deterministic or sampled."
    )
    on: Annotated[Parts, Flag("canary-on", form="text")] = Field(
        ("train", "vali", "test"), description="Parts in which canaries are searched."
    )
    min_documents: int = Field(10, ge=2, description="Leave out queries with fewer documents.")

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
        if self.stop_early and self.estimator not in ("auto", "betting"):
            raise ValueError(
                f"--stop-early: the bound of {self.estimator} is for a fixed number of trials; expected "
                "--estimator betting"
            )
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
        return tuple(
            view
            for view in self.views
            if not (sees_lists(view) and unit == "client") and (sees_lists(view) or not self.lists)
        )
