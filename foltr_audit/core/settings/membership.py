"""The membership protocol of a Spec: who took part in the training, told from the models alone."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from foltr_audit.core.settings.base import Flag, Several, SpecTable

MembershipView = Literal["released", "client"]
MembershipMethod = Literal["lira", "lira-offline", "rmia", "rmia-offline"]

CLIENTS: Final = 50
"""Clients of a federation whose members are inferred, if none are given: membership shows among few."""


class MembershipSpec(SpecTable):
    """Membership inference with shadow federations.

    A federation has `population.clients` members: a random half of twice as many candidates. Each federation
    is attacked in turn, with all others as shadows.
    """

    methods: Annotated[Several[MembershipMethod], Flag("method")] = Field(
        ("lira", "rmia"), description="lira, lira-offline, rmia or rmia-offline."
    )
    views: Annotated[Several[MembershipView], Flag("view")] = Field(
        ("released", "client"),
        description="What the observer sees. released: the first and the trained model; client: the "
        "global model of every round, as a participant does.",
    )
    of: Literal["client", "log"] = Field(
        "client",
        description="What is known of a candidate. client: the queries that it asks; log: also the draws "
        "behind its lists and clicks.",
    )
    rounds_seen: Annotated[int | None, Flag(default="all")] = Field(
        None,
        ge=1,
        description="With --view client: number of last rounds of which the observer sees the models before "
        "and after. 1: two global models in a row.",
    )
    shadows: int = Field(
        128, ge=16, le=100_000, description="Number of federations that are trained and attacked."
    )
    references: int = Field(
        8,
        ge=1,
        le=100_000,
        description="Number of times that the attacker plays each candidate to learn its usual updates.",
    )
    others: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Least number of clients outside of all federations, with which rmia compares.",
    )
    gamma: float = Field(
        1.0, gt=0, le=1e6, description="Likelihood ratio by which rmia prefers a candidate to another client."
    )
    offline_scale: float = Field(
        0.3, ge=0, le=1, description="Slope a of the line by which rmia-offline guesses what members reach."
    )

    @property
    def compares(self) -> bool:
        """Whether a method compares candidates with clients outside of all federations."""
        return any(name.startswith("rmia") for name in self.methods)
