"""What is proven for recorded messages, by the events of their header, and the most attacks can reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.results import ProofRecord
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import DELTA
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.privacy.accounting.situation import AccountingContext
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    MessageAggregation,
    OpaqueChange,
    PrivacyEvent,
    UnknownNoise,
    in_format,
)
from foltr_audit.privacy.observer_views import WITH_LISTS, attacked_view, without_lists
from foltr_audit.privacy.tradeoff import pooled_curve
from foltr_audit.trace import TraceHeader
from foltr_audit.trace.declared_header import revealed_draws, stated_members
from foltr_audit.utils.arrays import Bools

_MOST_INTERACTIONS = 1_000_000  # of a message with an unknown number: more than any


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedPromises:
    """What a chain promises about recorded messages, for the observer that attacks them.

    Attributes:
        interaction: all clicks of one interaction are replaced.
        message: one client's message of one round is that of another client; lists and queries are not seen.
        clicks: all clicks of one client are replaced, in all recorded rounds; its queries and lists stay.
        client: all recorded messages of one client are those of another client.
    """

    interaction: ProvenPromise
    message: ProvenPromise
    clicks: ProvenPromise
    client: ProvenPromise

    @classmethod
    def of(cls, header: TraceHeader, first: RoundRecord, rounds: int, protocol: AttackSpec) -> Self | None:
        """The promises of a header; None where it declares no events.

        An attack on sums adds messages up itself, without the aggregator's noise, and a sum may be of one
        message. So only the noise of each message counts there. It is the same where messages lie open in the
        recording, whatever its header says of secure aggregation.
        """
        members = _with_weights(stated_members(header, first.shares), first)
        events = declared_events(header)
        if events is None:
            return None
        if protocol.sums:
            events = _without(events, MessageAggregation, CorrelatedNoise)
            members = None
        elif header.kind != "masked":
            events = _without(events, MessageAggregation)
        view = attacked_view(protocol.view, protocol.hide)
        alone = without_lists(view)
        # Lists tell which queries a client asks, and so does whoever knows the queries.
        seen = alone if "query" in protocol.hide else alone + WITH_LISTS
        interactions = _interactions(header, first)
        ranked_with: Literal["local", "global"] = "local"
        if header.knowledge.get("rank_with") == "global":
            ranked_with = "global"

        def promise(unit: str, sees: str, times: int) -> ProvenPromise:
            situation = AccountingContext(
                view=sees,
                unit=unit,
                parameters=header.parameters,
                members=members,
                interactions=interactions,
                ranked_with=ranked_with,
                list_length=header.k,
                rounds=times,
            )
            return ProvenPromise.of(events, situation, DELTA)

        return cls(
            interaction=promise("interaction", view, 1),
            message=promise("client", alone, 1),
            # The unit `query` allows for every interaction of every round, and so for all clicks.
            clicks=promise("query", view, rounds),
            client=promise("client", seen, rounds),
        )

    def records(self) -> tuple[ProofRecord, ...]:
        """What is proven, without the curves."""
        promises = {
            "one interaction": self.interaction,
            "one message": self.message,
            "all clicks of a client": self.clicks,
            "a client": self.client,
        }
        return tuple(
            ProofRecord(
                of="attacked",
                about=about,
                view=promise.situation.view,
                unit=promise.situation.unit,
                interactions=promise.situation.interactions,
                rounds=promise.situation.rounds,
                upper=promise.upper,
                auc=promise.curve.auc,
            )
            for about, promise in promises.items()
        )


def _interactions(header: TraceHeader, record: RoundRecord) -> int:
    """Interactions behind a message, as the header says; more than any where it says none, or too few.

    Too few are less than the largest weight of a message, whatever the weights are.
    """
    stated = header.stated("interactions")
    return _MOST_INTERACTIONS if stated is None or stated < record.counts.max(initial=1) else int(stated)


def _with_weights(members: SumMembers | None, record: RoundRecord) -> SumMembers | None:
    """Who is in a sum, with the weights of a round; None where a message, and its noise, weighs nothing."""
    weights = record.counts[record.survivors]
    if members is None or not weights.size:
        return members
    return replace(members, largest_weight=float(weights.max() / weights.min())) if weights.all() else None


def declared_events(header: TraceHeader) -> tuple[PrivacyEvent, ...] | None:
    """The events of a header; None where it has none.

    What is not known here counts as a change that states nothing about itself.
    """
    if header.events is None:
        return None
    found = [
        OpaqueChange(mechanism=text) if event is None or isinstance(event, UnknownNoise) else event
        for text, event, _ in header.events
    ]
    draws = revealed_draws(header)
    if draws is not None and draws not in found:
        found.append(draws)
    return in_format(found, header.number_format)


def _without(events: Iterable[PrivacyEvent], *kinds: type[PrivacyEvent]) -> tuple[PrivacyEvent, ...]:
    return tuple(event for event in events if not isinstance(event, kinds))


CEILINGS = ("accuracy", "exact", "auc", "tpr_at_1", "tpr_at_01")
"""Metrics of attacks on clicks that a proof may bound."""


def click_ceilings(evidence: ClickEvidence, promise: ProvenPromise | None) -> dict[str, float]:
    """Upper bounds on the metrics of any attack on lists with a click; see `docs/maths.md`, "Ceilings".

    They hold for an attacker who knows the grades of all documents and how users click, and uses the message
    in the best possible way. The unit is `interaction`: the clicks of a list depend on each other. None where
    nothing is proven, or where the probabilities of clicks are not known.

    Two documents of one message are seen through one observation: such pairs count as in the right order, so
    that the pooled AUC holds whatever one message reveals of both.
    """
    judged = evidence.at(evidence.has_click)
    here, priors = judged.is_document, judged.priors
    if promise is None or not promise.known or not here.any() or np.isnan(priors.clicked[here]).any():
        return {}
    curve = promise.curve
    right = np.where(here, curve.accuracy(priors.clicked), 0.0).sum(axis=1) / here.sum(axis=1)
    ceilings = {"accuracy": float(right.mean()), "exact": float(curve.success(priors.pattern).mean())}
    pooled = pooled_curve(curve, priors.clicked[here])
    if pooled is not None:
        ceilings["auc"] = _with_pairs_inside(pooled.auc, judged, here)
        ceilings |= {"tpr_at_1": float(pooled.power(1e-2)), "tpr_at_01": float(pooled.power(1e-3))}
    return ceilings


def _with_pairs_inside(auc: float, judged: ClickEvidence, here: Bools) -> float:
    """The AUC if all pairs of two documents of one message are in the right order."""
    _, number = np.unique(judged.message, return_inverse=True)
    clicked = np.bincount(number, weights=judged.clicks.sum(axis=1))
    unclicked = np.bincount(number, weights=(here & ~judged.clicks).sum(axis=1))
    pairs = float(clicked.sum() * unclicked.sum())
    inside = float(clicked @ unclicked) / pairs if pairs else 0.0
    return inside + (1.0 - inside) * auc


def any_click_ceiling(evidence: ClickEvidence, promise: ProvenPromise | None) -> dict[str, float]:
    """The largest AUC with which lists with a click are told from those without; none where none is known.

    Several lists of one message are no independent observations, so nothing is known of them.
    """
    likely = evidence.priors.any_click
    alone = np.unique(evidence.message).size == evidence.message.size
    if promise is None or not promise.known or not alone or np.isnan(likely).any():
        return {}
    pooled = pooled_curve(promise.curve, likely)
    return {} if pooled is None else {"auc": pooled.auc}
