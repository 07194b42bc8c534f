"""The interfaces of every kind of round, and what their messages have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.plugins.answers import clicks_of
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records.interactions import GlobalModel, Payload
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.errors import DataError
from foltr_audit.simulation.client import CohortInteractions
from foltr_audit.simulation.client_data import ClientData
from foltr_audit.simulation.rounds import CohortMessages
from foltr_audit.utils.arrays import Bools, Floats, Ints


class Senders(Protocol):
    """Clients that search one data set and send messages."""

    def send(self, asked: QueryAssignment, context: RoundContext) -> CohortMessages:
        """Play the queries (C, B) of every client; each sends one message.

        Raises:
            DataError: a message is not finite in its number format.
        """
        ...


class TrainingServer(Protocol):
    """The rounds of one learner on the training split."""

    def first(self, parameters: Floats) -> GlobalModel:
        """The server's first state, from a first model (P,)."""
        ...

    def play(
        self, asked: QueryAssignment, context: RoundContext, before: GlobalModel
    ) -> tuple[CohortMessages, GlobalModel]:
        """Play one round of queries (C, B): the cohort's messages, and the server's state after it.

        Raises:
            DataError: a message or the global model is not finite.
        """
        ...


def to_format(values: Payload, dtype: str, round_: int) -> NDArray[np.float32] | Floats:
    """Convert messages to their number format.

    Raises:
        DataError: one is not finite.
    """
    # What overflows becomes infinite, and is reported below with a remedy instead of a warning.
    with np.errstate(over="ignore"):
        messages = values.astype(dtype)
    if not np.all(np.isfinite(messages)):
        raise DataError(
            f"round {round_}: a client's model is too large for {dtype}; "
            "normalise the features, or lower the learning rate or the noise"
        )
    return messages


def play_in_score_order(
    ranker: Ranker,
    world: ClientData,
    asked: QueryAssignment,
    models: Callable[[int], Floats],
    context: RoundContext,
) -> tuple[Ints, Bools]:
    """Lists in score order and clicks on them, both (C, B, k), for queries (C, B).

    `models` returns what ranks the lists of a step: one model for every client, or one each, (1 or C, P).
    """
    from foltr_audit.kernels.ranking import top_lists

    shown = np.full((*asked.queries.shape, LIST_LENGTH), -1, dtype=np.int64)
    clicks = np.zeros(shown.shape, dtype=np.bool_)
    click_model, largest = world.click_model, world.largest_label
    streams = context.streams(click_model.purpose)
    for step in range(shown.shape[1]):
        rows = np.flatnonzero(asked.queries[:, step] >= 0)
        queries, every = asked.queries[rows, step], models(step)
        mine = every if len(every) == 1 else every[rows]
        scores, starts = ranker.scores(mine, world.data, queries)
        shown[rows, step] = top_lists(scores, starts, LIST_LENGTH)
        labels = world.clicked_grades(queries, asked.ways[rows, step], shown[rows, step])
        clicks[rows, step] = clicks_of(click_model, labels, largest, streams.at(rows), step)
    return shown, clicks


def reported_clicks(chain: DefenseChain, shown: Ints, clicks: Bools, context: RoundContext) -> Bools:
    """Clicks (C, B, k) on lists (C, B, k) after the click stage, one interaction after the other.

    These clicks themselves where nothing acts on them.
    """
    if not chain.links("click"):
        return clicks
    steps = range(clicks.shape[1])
    return np.stack([chain.on_clicks(clicks[:, i], shown[:, i], i, context) for i in steps], axis=1)


def unclipped(queries: Ints, shown: Ints, clicks: Bools, reported: Bools) -> CohortInteractions:
    """Interactions of clients without local steps: queries (C, B), lists and clicks (C, B, k)."""
    nothing = np.zeros(queries.shape, dtype=np.bool_)
    return CohortInteractions(queries=queries, shown=shown, clicks=clicks, reported=reported, clipped=nothing)


def check_finite(parameters: Floats, round_: int) -> Floats:
    """Check a global model (P,).

    Raises:
        DataError: it is not finite.
    """
    if not np.all(np.isfinite(parameters)):
        raise DataError(
            f"round {round_}: the global model is not finite; "
            "normalise the features, or lower the learning rate"
        )
    return parameters
