"""Secure aggregation: the server gets only the sum of the messages."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from foltr_audit.errors import UsageError
from foltr_audit.plugins import Defense, PrivacyEvent, RoundContext, WireMessages
from foltr_audit.privacy.events import GridRounding, KeyShares, MessageAggregation
from foltr_audit.privacy.secure_aggregation import FixedPoint, SecureSum, SecureSumResult
from foltr_audit.privacy.secure_aggregation.protocol import STAGES, client_seconds
from foltr_audit.utils.arrays import Bools, Floats


class SecureAggregation(Defense):
    """Masks cancel in the sum of a cohort: the server learns the sum, who took part, and the counts.

    Guarantees: no differential privacy on its own, for any relation or unit. An honest-but-curious server
    sees only sums of at least `threshold` clients' messages (view: aggregate instead of individual), as long
    as fewer of any client's neighbours than the Shamir threshold collude with it. Shown lists are not hidden.
    The server can say of clients that they dropped out, so proofs count on no more messages than the
    threshold (with `masks=false`: where some may drop out).

    Weighted messages are sent as multiples of 2^-fraction modulo 2^bits, with a rounding error of at most
    2^-(fraction + 1). If fewer clients than the threshold survive, the round aborts and the global model
    stays as it was. With `bind=true` a sum opens only if all clients received the same model: otherwise their
    masks do not cancel, and what the server decodes is noise. Clients help to open the sum of a round once;
    with `once=false` they do so again, and the difference of two sums is the sum of the clients in one alone.

    Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning",
    figure 4; Bell et al. 2020, "Secure single-server aggregation with (poly)logarithmic overhead", section 3;
    `bind`: Pasquini, Francati & Ateniese 2022, "Eluding secure aggregation in federated learning via model
    inconsistency", section 6.
    """

    name: ClassVar[str] = "secure-aggregation"

    bits: int = Field(48, description="width b of the integers modulo 2^b, 16 to 64")
    range: float = Field(64.0, description="largest |coordinate| that can be sent")
    fraction: int = Field(24, description="binary digits after the point")
    neighbours: Annotated[str, BeforeValidator(str)] = Field(
        "0",
        pattern="^(all|[0-9]{1,9})$",
        description="neighbours that a client masks with; 0: about 2 log2 n + 10; all: the complete graph",
    )
    threshold: float = Field(
        0.5, description="fewest messages in a sum: more than this share of the cohort, or a number from 2"
    )
    drop_before: float = Field(0.0, ge=0, lt=1, description="probability to drop out before keys are shared")
    drop_after: float = Field(
        0.0, ge=0, lt=1, description="probability to drop out after keys are shared, before the message"
    )
    masks: bool = Field(True, description="false: no masks, to show what the masks hide")
    agreement: Literal["none", "x25519"] = Field(
        "none", description="how pairs agree on seeds: none (a keyed hash), or key agreement on Curve25519"
    )

    bind: bool | None = Field(
        None,
        description="true: masks depend on the received model and the round, and cancel only if all agree",
    )

    once: bool | None = Field(
        None, description="false: clients also answer a second request to open the sum of a round"
    )

    @field_validator("bind")
    @classmethod
    def _unbound_is_left_out(cls, value: bool | None) -> bool | None:
        return value or None

    @field_validator("once")
    @classmethod
    def _once_is_left_out(cls, value: bool | None) -> bool | None:
        return False if value is False else None

    @model_validator(mode="after")
    def _can_be_run(self) -> SecureAggregation:
        try:
            # At least one client of weight 1 must fit. Whether a whole cohort fits is known only in a round.
            self.protocol.encoding.check_sum(np.ones(1, dtype=np.int64))
        except UsageError as error:
            raise ValueError(str(error).removeprefix("secure-aggregation: ")) from error
        return self

    @property
    def reopens(self) -> bool:
        """Only with `once=false`."""
        return self.once is False

    @cached_property
    def protocol(self) -> SecureSum:
        encoding = FixedPoint(bits=self.bits, range=self.range, fraction=self.fraction)
        return SecureSum(
            encoding=encoding,
            neighbours="all" if self.neighbours == "all" else int(self.neighbours),
            threshold=self.threshold,
            masks=self.masks,
            agreement=self.agreement,
        )

    @property
    def encoding(self) -> FixedPoint:
        """How messages are encoded as integers."""
        return self.protocol.encoding

    def on_wire(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        """Masked messages uint64 (C, P) and their sum.

        Messages are zero in a round of which only sums are used; the sum is the same. Clients that are
        already lost count as dropped out after sharing keys.
        """
        # Both numbers are drawn for every client, from a stream that no mask uses, so that changing one
        # probability does not change who drops out by the other.
        chance = context.streams("drop-out").uniform(2)
        before = chance[:, 0] < self.drop_before
        after = (chance[:, 1] < self.drop_after) | ~survivors
        streams = context.streams("secure-aggregation")
        digests = self._digests(context) if self.bind else None

        def run(lost: Bools) -> SecureSumResult:
            return self.protocol.run(
                messages, context.counts, streams, before, lost, digests, sum_only=context.sums_only
            )

        outcome = run(after)
        arrived = outcome.survivors & (not outcome.aborted)
        second = None
        if context.reopened is not None and self.reopens:
            # The server says that the others dropped out, and their neighbours help to remove their masks.
            second = run(after | ~context.reopened).total
        return WireMessages(
            messages=outcome.payload,
            survivors=arrived,
            total=outcome.total,
            sum=outcome.sum,
            second_total=None if outcome.total is None else second,
            aborted=outcome.aborted,
            costs=_costs(outcome),
        )

    def _digests(self, context: RoundContext) -> list[bytes]:
        """A hash of round and received model for each client."""
        received = np.broadcast_to(
            context.parameters if context.received is None else context.received,
            (context.clients.size, context.parameters.size),
        )
        which, number = np.unique(received, axis=0, return_inverse=True)
        said = [f"{context.round}/".encode() + model.astype("<f8").tobytes() for model in which]
        hashed = [hashlib.blake2b(text, digest_size=32).digest() for text in said]
        return [hashed[i] for i in number.reshape(-1).tolist()]

    def alone(self, messages: Floats, context: RoundContext) -> WireMessages:
        """Masked messages uint64 (C, P) of clients in separate cohorts of `context.shares` clients each.

        Nobody drops out, and no sum is computed.
        """
        streams = context.streams("secure-aggregation")
        cohort = context.shares
        everybody = np.ones(messages.shape[0], dtype=np.bool_)
        if cohort < self.protocol.plan(cohort).at_least:
            return WireMessages(
                messages=np.zeros(messages.shape, dtype=np.uint64),
                survivors=~everybody,
                aborted=f"shares: a cohort of {cohort} clients, {self.protocol.plan(cohort).at_least} needed",
            )
        payload = self.protocol.alone(messages, context.counts, streams, cohort)
        return WireMessages(messages=payload, survivors=everybody)

    def arriving(self, messages: int, cohort: int, *, alike: bool) -> int:
        """As many as open a sum: with masks a server may also say of clients that they dropped out."""
        if not self.masks and self.drop_before == self.drop_after == 0:
            return messages
        return min(cohort, self.protocol.plan(cohort).at_least)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        """Rounding to the encoding, then a sum of at least as many messages as the threshold."""
        rounded = GridRounding(step=2.0 * self.encoding.error, nearest=True)
        if not self.masks:
            return (rounded,)
        plan = self.protocol.plan(context.shares)
        shares = KeyShares(neighbours=plan.neighbours, needed=plan.shares_needed)
        return (rounded, MessageAggregation(at_least=plan.at_least, key_shares=shares))

    def client_seconds(self, clients: int, size: int) -> dict[str, float]:
        """Measure the seconds of one client's work for a message of P = `size`, by stage."""
        plan = self.protocol.plan(clients)
        return client_seconds(plan.neighbours, plan.shares_needed, size, self.agreement)


def _costs(outcome: SecureSumResult) -> dict[str, float]:
    """Mean bytes that a client sends, by stage and in total, and whether the round aborted."""
    clients = max(1, outcome.sent.shape[0])
    means = (outcome.sent.sum(axis=0) / clients).tolist()
    named = {f"bytes_{stage}": mean for stage, mean in zip(STAGES, means, strict=True)}
    return {"bytes": float(sum(means)), **named, "aborted": float(bool(outcome.aborted))}
