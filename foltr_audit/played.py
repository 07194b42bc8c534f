"""A round that was played, and the records that can be made of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.client import Interactions
from foltr_audit.metrics import max_rr, mean_ndcg
from foltr_audit.plugins import RoundContext
from foltr_audit.records import Dataset
from foltr_audit.records.rounds import GlobalModel, Payload, RoundRecord, RoundTruth
from foltr_audit.records.wired import Wired


@dataclass(frozen=True, kw_only=True, eq=False)
class Sent:
    """What a cohort sent, before the server does anything with it.

    Attributes:
        messages: in the message kind and number format of the Spec, or encoded as integers, (C, W).
        wired: what the server receives of them.
        updates: what each client would send without any defense (of a model its change), float64 (C, W).
        interactions: what the clients did.
        seeds: what each client drew its perturbation from, uint64 (C,), if it did.
    """

    messages: Payload
    wired: Wired
    updates: NDArray[np.float64]
    interactions: Interactions
    seeds: NDArray[np.uint64] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Origin:
    """Where the queries of a data set come from: their part and their index inside it, each (queries,)."""

    part: NDArray[np.int64]
    query: NDArray[np.int64]

    @classmethod
    def of_part(cls, part: int, data: Dataset) -> Origin:
        """Every query comes from one part, as it stands there."""
        return cls(part=np.full(data.n_queries, part), query=np.arange(data.n_queries))


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """One round that was played; records are only made of it where somebody keeps them.

    Attributes:
        context: the round that clients and defenses acted in.
        sent: what the cohort sent.
        after: the global model afterwards.
        metrics: utility of the round by name.
        origin: where its queries come from.
        embedded: the data set whose feature rows are stored with the shown lists, if any.
    """

    context: RoundContext
    sent: Sent
    after: GlobalModel
    metrics: dict[str, float]
    origin: Origin
    embedded: Dataset | None

    @property
    def aggregate(self) -> NDArray[np.float64]:
        """The global model afterwards, float64 (P,)."""
        return self.after.parameters

    def recorded(self, *, messages: bool = True) -> tuple[RoundRecord, RoundTruth]:
        """The observed record and the truth; without `messages` the global models and the utility only."""
        kept = slice(None if messages else 0)
        context, sent, done = self.context, self.sent, self.sent.interactions
        queries = done.queries[kept]
        slots, steps = queries.shape
        asked = queries.reshape(-1)
        shown = done.shown[kept].reshape(slots * steps, done.shown.shape[-1])
        record = RoundRecord(
            round=context.round,
            parameters=context.parameters,
            aggregate=self.aggregate,
            shares=context.shares,
            survivors=sent.wired.survivors[kept],
            counts=context.counts[kept],
            messages=sent.messages[kept],
            slot=np.repeat(np.arange(slots), steps),
            step=np.tile(np.arange(steps), slots),
            part=self.origin.part[asked],
            query=self.origin.query[asked],
            shown=shown,
            features=None
            if self.embedded is None
            else self.embedded.shown_features(asked, shown).astype(np.float32, copy=False),
            total=sent.wired.total,
            aborted=sent.wired.aborted,
            seeds=None if sent.seeds is None else sent.seeds[kept],
            state=self.after.state,
        )
        truth = RoundTruth(
            clients=context.clients[kept],
            updates=sent.updates[kept],
            clicks=done.clicks[kept].reshape(shown.shape),
            clipped=done.clipped[kept].reshape(-1),
            metrics=self.metrics,
        )
        return record, truth


def online_metrics(
    done: Interactions, data: Dataset, ideal: NDArray[np.float64], no_relevant: str
) -> dict[str, float]:
    """Mean online nDCG@10 and MaxRR of some interactions, and the share of clipped steps."""
    k = done.shown.shape[-1]
    queries, shown, clicks = done.queries.reshape(-1), done.shown.reshape(-1, k), done.clicks.reshape(-1, k)
    return {
        "online_ndcg@10": mean_ndcg(data, queries, shown, ideal, no_relevant),
        "maxrr": float(max_rr(clicks).mean()),
        "clipped": float(done.clipped.mean()),
    }
