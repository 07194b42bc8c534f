"""A system that is described in a file: tables of what it does, what was assumed, and what it claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError

from foltr_audit.core.declared.declared_system import (
    AccountingBasis,
    Covers,
    DeclaredClaim,
    DeclaredStep,
    DeclaredSystem,
    NumberFormat,
    Relation,
)
from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.settings.audit import AuditView, Unit
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.errors import UsageError, shorten_value, suggest_name
from foltr_audit.privacy.events import MessageAggregation, NoiseAddition, NormBound
from foltr_audit.privacy.noise import AdditiveNoise, GammaShare, parse_law
from foltr_audit.utils.reading import toml_table

SYSTEM_SCHEMA = "foltr-audit/system/1"

ClaimView = Literal[AuditView, "published"]
Count = Annotated[int, Field(ge=1, le=10**9)]
Size = Annotated[float, Field(ge=1e-30, le=1e30)]
Epsilon = Annotated[float, Field(ge=1e-9, le=1e9)]
Delta = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=1e-9, le=1)]

_SAME_VARIANCE = 1e-6  # relative: how well shares of a law must add up to it


class _Table(SpecTable):
    """A table whose numbers are numbers and whose texts are texts."""

    model_config = ConfigDict(strict=True)


class ClientsTable(_Table):
    """Who takes part."""

    total: Count | None = Field(None, description="Clients of the system.")
    per_round: Count | None = Field(None, description="Clients that send in a round.")
    interactions: Count | None = Field(None, description="Interactions of a client behind one message.")
    weights: Literal["equal", "by interactions"] = Field(
        "equal", description="How clients are weighted in the sum."
    )


class MessageTable(_Table):
    """What a client sends."""

    parameters: Count | None = Field(None, description="Numbers in a message, P.")
    number_format: NumberFormat | None = Field(None, description="Type of the numbers.")
    lists: Literal["hidden", "shown"] | None = Field(
        None, description="Whether the server sees the lists that clients are shown."
    )
    ranked_with: Literal["local", "global"] | None = Field(
        None, description="Model that ranks the lists of a round."
    )


class ClipTable(_Table):
    """The clip of each message."""

    norm: Size | None = Field(None, description="Radius of the ball.")
    order: Literal[1, 2] | None = Field(None, description="Norm of the ball, L1 or L2.")
    of: Literal["model", "update"] = Field("model", description="What is clipped.")
    when: Literal["before noise", "after noise"] = Field("before noise", description="When it is clipped.")


class NoiseTable(_Table):
    """The noise."""

    law: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Law of the whole noise on one coordinate, as a trace names it, e.g. laplace:scale=2.5.",
    )
    added: Literal["client", "shares", "server"] = Field(
        "client",
        description="By whom: each client adds all of it, each client adds one of n shares of it, or the "
        "server adds it to the sum.",
    )


class SecureAggregationTable(_Table):
    """A protocol by which the server learns sums only. An empty table: all messages are in each sum."""

    threshold: Count | None = Field(None, description="Fewest messages in a sum.")


class AccountingTable(_Table):
    """What the numbers were computed for, as the authors of the system state it."""

    sensitivity: Size | None = Field(None, description="Largest distance of two neighbouring messages.")
    epsilon: Epsilon | None = Field(None, description="Epsilon of one round.")
    delta: Delta | None = Field(None, description="Delta of one round.")
    clients: Count | None = Field(None, description="Clients n whose noise adds up.")
    interactions: Count | None = Field(None, description="Interactions behind a message.")
    rounds: Count | None = Field(None, description="Rounds that were composed.")
    sampled: Share | None = Field(None, description="Share of the clients that take part in a round.")
    relation: Relation | None = Field(None, description="Whether a unit is replaced, or added or removed.")
    unit: Unit | None = Field(None, description="What neighbouring inputs differ in.")
    formula: Literal["analytic", "classical"] | None = Field(
        None, description="How the deviation of normal noise was computed."
    )


class ClaimTable(_Table):
    """What is claimed."""

    epsilon: Epsilon | None = Field(None, description="The claimed epsilon.")
    delta: Delta = Field(0.0, description="The claimed delta.")
    unit: Unit | None = Field(None, description="What neighbouring inputs differ in.")
    relation: Relation | None = Field(None, description="Whether a unit is replaced, or added or removed.")
    view: ClaimView | None = Field(
        None, description="Whose observations: a view, or published for those who see the global model only."
    )
    covers: Covers | None = Field(None, description="One round, or the whole run.")


class RunTable(_Table):
    """The training."""

    rounds: Count | None = Field(None, description="Rounds of the training.")
    separation: Count = Field(
        1, description="Rounds from one in which a client takes part to its next one, at least."
    )
    sampled: Share | None = Field(None, description="Share of the clients that take part in a round.")
    secret_sample: bool = Field(default=False, description="Whether nobody knows who took part.")


class SystemFile(_Table):
    """A system in words that a file can hold. Every field may be left out: it is then not declared."""

    schema_: Literal["foltr-audit/system/1"] = Field("foltr-audit/system/1", alias="schema")
    name: str = Field("system", max_length=200, description="Name of the system.")
    clients: ClientsTable = ClientsTable()
    message: MessageTable = MessageTable()
    clip: ClipTable = ClipTable()
    noise: NoiseTable = NoiseTable()
    secure_aggregation: SecureAggregationTable | None = None
    accounting: AccountingTable = AccountingTable()
    claim: ClaimTable = ClaimTable()
    run: RunTable = RunTable()

    @classmethod
    def from_toml(cls, text: str, where: str) -> SystemFile:
        """The description in a TOML text.

        Raises:
            UsageError: it is no TOML, or holds an unknown field (with the nearest known one) or a bad value.
        """
        return cls.parse(toml_table(text, where, UsageError), where)

    @classmethod
    def parse(cls, table: Mapping[str, object], where: str = "system") -> SystemFile:
        """The description in a plain table; errors begin with `where`.

        Raises:
            UsageError: an unknown field (with the nearest known one), or a bad value.
        """
        _refuse_unknown(table, where)
        try:
            found = cls.model_validate(table)
        except ValidationError as error:
            raise UsageError(f"{where}: {first_problem(error)}") from error
        try:
            found.system()
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
        return found

    def system(self) -> DeclaredSystem:
        """What is declared, as checks read it.

        Raises:
            UsageError: an unknown law, or one that cannot be shared among the clients.
        """
        clients, local = self.clients, self.message.ranked_with != "global"
        behind = clients.interactions
        follow = behind is not None and behind > 1 and local and self.message.ranked_with is not None
        bounded = self.clip.norm is not None and self.clip.order is not None
        return DeclaredSystem(
            steps=self._steps(),
            claims=self._claims(),
            basis=AccountingBasis(**dict(self.accounting)),
            complete=bounded and self.noise.law is not None,
            described=True,
            parameters=self.message.parameters,
            clients=clients.total,
            cohort=clients.per_round,
            interactions=behind,
            rounds=self.run.rounds,
            separation=self.run.separation,
            sampled=self._sampled(),
            secret_sample=self.run.secret_sample,
            number_format=self.message.number_format,
            lists_shown=None if self.message.lists is None else self.message.lists == "shown",
            lists_follow_clicks=follow,
            alike_in_number=clients.weights == "equal",
            server_noise=self.noise.added == "server",
        )

    def _sampled(self) -> float | None:
        total, part = self.clients.total, self.clients.per_round
        if self.run.sampled is None and total is not None and part is not None:
            return min(1.0, part / total)
        return self.run.sampled

    def _claims(self) -> tuple[DeclaredClaim, ...]:
        claim = dict(self.claim)
        return () if claim["epsilon"] is None else (DeclaredClaim(name="claim", **claim),)

    def _steps(self) -> tuple[DeclaredStep, ...]:
        noise, clip = self._noise(), []
        if self.clip.norm is not None:
            # Of the two balls of a radius, the one of order 1 is inside the other: what it allows, both do.
            bound = NormBound(norm=self.clip.norm, ord=self.clip.order or 1, of=self.clip.of)
            clip = [DeclaredStep(name="clip", event=bound)]
        steps = [*clip, *noise] if self.clip.when == "before noise" else [*noise, *clip]
        if self.secure_aggregation is not None:
            everybody = self.clients.per_round or self.accounting.clients or 1
            fewest = self.secure_aggregation.threshold or everybody
            steps.append(DeclaredStep(name="secure_aggregation", event=MessageAggregation(at_least=fewest)))
        return tuple(steps)

    def _noise(self) -> list[DeclaredStep]:
        if self.noise.law is None:
            return []
        law = parse_law(self.noise.law)
        if law is None:
            raise UsageError(
                f"noise.law={shorten_value(self.noise.law)!r}: expected a law such as laplace:scale=2.5 or "
                "gaussian:sigma=0.5"
            )
        n = self._share_count(law)
        basis = self.accounting
        plain = self.claim.covers != "run" or self.run.rounds == 1
        plain = plain and basis.sampled in (None, 1)  # else a sample makes it smaller than that of the noise
        return [
            DeclaredStep(
                name="noise",
                event=NoiseAddition(law=_share_of(law, n)),
                sensitivity=basis.sensitivity,
                shares=n,
                epsilon=self.claim.epsilon if basis.epsilon is None and plain else basis.epsilon,
                delta=self.claim.delta if basis.delta is None else basis.delta,
            )
        ]

    def _share_count(self, law: AdditiveNoise) -> int:
        """Into how many parts the whole noise is divided: noise of the server is that of all its clients."""
        if self.noise.added == "client":
            return 1
        n = self.accounting.clients if self.noise.added == "shares" else None
        n = n or self.clients.per_round
        if n is None and self.noise.added == "shares":
            raise UsageError("noise.added=shares: expected accounting.clients or clients.per_round too")
        return n or 1


def _share_of(law: AdditiveNoise, n: int) -> AdditiveNoise:
    """The law of one of n independent shares whose sum has a law.

    Raises:
        UsageError: no law is known whose draws add up to it.
    """
    if n == 1:
        return law
    is_laplace = isinstance(law, GammaShare) and law.n == law.count == 1
    share = replace(law, n=n) if isinstance(law, GammaShare) and is_laplace else law.with_variance(1.0 / n)
    total = share.summed(n)
    if not math.isclose(total.variance, law.variance, rel_tol=_SAME_VARIANCE) or (
        isinstance(law, GammaShare) and not is_laplace
    ):
        raise UsageError(f"noise.law={law.text}: no noise is known of which {n} shares add up to it")
    return share


def _refuse_unknown(table: Mapping[str, object], where: str) -> None:
    tables: dict[str, type[SpecTable]] = {
        "clients": ClientsTable,
        "message": MessageTable,
        "clip": ClipTable,
        "noise": NoiseTable,
        "secure_aggregation": SecureAggregationTable,
        "accounting": AccountingTable,
        "claim": ClaimTable,
        "run": RunTable,
    }
    known = {"schema", *SystemFile.model_fields} - {"schema_"}
    for name, value in table.items():
        if name not in known:
            raise UsageError(f"{where}: unknown field {shorten_value(name)!r}; {suggest_name(name, known)}")
        if name in tables and isinstance(value, Mapping):
            for inner in value:
                if inner not in tables[name].model_fields:
                    raise UsageError(
                        f"{where}: unknown field {name}.{shorten_value(inner)}; "
                        f"{suggest_name(inner, tables[name].model_fields)}"
                    )
