"""What a client does in one interaction, for a whole cohort at once: rank, click, learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.chain import Chain
from foltr_audit.metrics import LIST_LENGTH
from foltr_audit.plugins import ClickModel, Learner, RoundContext
from foltr_audit.rankers.linear import LinearRanker
from foltr_audit.records import Dataset


@dataclass(frozen=True, kw_only=True)
class ClientRules:
    """Everything about clients that stays the same between interactions.

    Attributes:
        ranker, learner, chain, click_model: what they rank, learn, defend and click with.
        largest_label: highest grade of the collection.
        sampled: lists are sampled from Plackett-Luce; otherwise they follow the scores.
        acts_without_pairs: the step stage also acts after an interaction without pairs.
    """

    ranker: LinearRanker
    learner: Learner
    chain: Chain
    click_model: ClickModel
    largest_label: int
    sampled: bool
    acts_without_pairs: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Interaction:
    """One interaction of every client of a cohort.

    Attributes:
        queries: int64 (C,).
        shown: int64 (C, k), padded with -1.
        labels: grades of the shown documents, int64 (C, k), -1 at the padding.
        clicks: what the user clicked, bool (C, k).
        clipped: whether the step stage changed the local model, bool (C,).
    """

    queries: NDArray[np.int64]
    shown: NDArray[np.int64]
    labels: NDArray[np.int64]
    clicks: NDArray[np.bool_]
    clipped: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalModels:
    """Local models on their way through a round: defended ones, and what they would be without.

    Attributes:
        models: float64 (C, P), after the step stage.
        steps: sum of the gradient steps taken, before any defense, float64 (C, P).
    """

    models: NDArray[np.float64]
    steps: NDArray[np.float64]

    @classmethod
    def start(cls, parameters: NDArray[np.float64], clients: int) -> LocalModels:
        """Every client starts at the global model (P,)."""
        models = np.tile(parameters, (clients, 1))
        return cls(models=models, steps=np.zeros_like(models))


def interact(
    rules: ClientRules,
    local: LocalModels,
    data: Dataset,
    queries: NDArray[np.int64],
    step: int,
    context: RoundContext,
) -> tuple[LocalModels, Interaction]:
    """One interaction: each client ranks its query, clicks, takes a step, and the step stage acts."""
    scores, starts = rules.ranker.scores(local.models, data, queries)
    shown = _show(rules, data, scores, starts, step, context)
    labels = data.shown_labels(queries, shown)
    streams = context.streams(f"clicks/{rules.click_model.name}")
    clicks = rules.click_model.click(labels, rules.largest_label, streams, step)
    learnt = rules.chain.on_clicks(clicks, shown, step, context)
    stepped, moved = rules.learner.local_step(local.models, data, queries, scores, starts, shown, learnt)
    acts = moved | rules.acts_without_pairs
    models, clipped = rules.chain.on_step(stepped, acts, context)
    after = LocalModels(models=models, steps=local.steps + (stepped - local.models))
    return after, Interaction(queries=queries, shown=shown, labels=labels, clicks=clicks, clipped=clipped)


def _show(
    rules: ClientRules,
    data: Dataset,
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    step: int,
    context: RoundContext,
) -> NDArray[np.int64]:
    from foltr_audit.kernels.ranking import sampled_lists, top_lists

    if not rules.sampled:
        return top_lists(scores, starts, LIST_LENGTH)
    streams = context.streams("show")
    first = step * LIST_LENGTH
    return sampled_lists(
        scores,
        starts,
        LIST_LENGTH,
        first,
        streams.clients,
        streams.round,
        streams.purpose_code,
        np.uint64(streams.key),
    )
