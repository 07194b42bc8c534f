"""The only holder of view and truth: runs attacks on recorded messages and keeps what they got right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import PluginError, UsageError
from foltr_audit.plugins import Attack, View
from foltr_audit.progress import NO_TICK, Tick
from foltr_audit.recording import Recording
from foltr_audit.records import Collection
from foltr_audit.records.rounds import RoundRecord, RoundTruth
from foltr_audit.records.view import Inference
from foltr_audit.rng import Streams
from foltr_audit.views import Placement, individual_views, query_names


@dataclass(frozen=True, kw_only=True, eq=False)
class Guessed:
    """What one attack answered for L lists of up to k documents.

    Attributes:
        scores: float64 (L, k).
        guess: bool (L, k).
    """

    scores: NDArray[np.float64]
    guess: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Judged lists: those with a click, what each attack said of them, and what was left out.

    Attributes:
        query: name of each list's query, (L,).
        is_document: False at the padding, bool (L, k).
        clicks: the truth, bool (L, k).
        guessed: by attack label.
        baselines: labels of the attacks that are shown for comparison only.
        skipped: lists without any click, which are left out.
        steps, clipped: local steps behind all lists, and how many of them were clipped.
    """

    query: NDArray[np.str_]
    is_document: NDArray[np.bool_]
    clicks: NDArray[np.bool_]
    guessed: dict[str, Guessed]
    baselines: frozenset[str]
    skipped: int
    steps: int
    clipped: int


def infer_round(
    record: RoundRecord,
    recording: Recording,
    collection: Collection | None,
    attacks: Sequence[Attack],
    streams: Streams,
) -> dict[str, Inference]:
    """Each attack's answer for every interaction of a round: scores and guesses (I, k), by label.

    BLAS is held to one thread, so that the answers do not depend on their number.

    Raises:
        UsageError: an attack cannot run on what this observer sees; it says why.
    """
    from threadpoolctl import threadpool_limits

    placement = Placement.of(record)
    views = individual_views(record, recording.header, collection)
    answers: dict[str, list[Inference]] = {attack.label: [] for attack in attacks}
    with threadpool_limits(limits=1, user_api="blas"):
        for rows, view in views:
            for attack in attacks:
                rng = streams.generator(f"attack/{attack.text}/{record.round}/{rows.start}")
                answers[attack.label].append(_infer(attack, view, rng))
    at = (placement.slot, placement.place)
    return {
        label: Inference(
            scores=np.concatenate([piece.scores for piece in pieces])[at],
            guess=np.concatenate([piece.guess for piece in pieces])[at],
        )
        for label, pieces in answers.items()
        if pieces
    }


def _infer(attack: Attack, view: View, rng: np.random.Generator) -> Inference:
    reason = attack.why_not(view)
    if reason is not None:
        raise UsageError(f"attack {attack.name}: cannot run on this view: {reason}")
    with np.errstate(all="ignore"):  # a foreign trace may hold numbers near the end of the range
        answer = attack.infer(view, rng)
    for name, shape in (("scores", answer.scores.shape), ("guess", answer.guess.shape)):
        if shape != view.shown.shape:
            raise PluginError(f"attack {attack.name}: {name} of shape {shape}; expected {view.shown.shape}")
    if np.isnan(answer.scores[view.is_document]).any():
        raise PluginError(f"attack {attack.name}: it gave a shown document the score NaN; expected a number")
    return answer


def judge(
    recording: Recording,
    collection: Collection | None,
    attacks: Sequence[Attack],
    streams: Streams,
    tick: Tick = NO_TICK,
) -> Evidence:
    """Run attacks on every recorded message and set their answers beside the truth.

    Args:
        recording: observed rounds with their truth.
        collection: the data set; None if the features are embedded.
        attacks: the attacks, with different labels.
        streams: named random streams for attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth.
    """
    if not recording.has_truth:
        raise UsageError(
            "trace: it holds no truth, so nothing can be scored; write guesses with --guesses FILE"
        )
    pieces = []
    for record, truth in zip(recording.rounds(), recording.truths(), strict=True):
        answers = infer_round(record, recording, collection, attacks, streams)
        names = query_names(record, recording.header, collection)
        pieces.append(_judged(record, truth, names, answers, attacks))
        tick()
    if not pieces:
        raise UsageError("trace: it holds no round yet")
    return combined(pieces)


def _judged(
    record: RoundRecord,
    truth: RoundTruth,
    names: NDArray[np.str_],
    answers: dict[str, Inference],
    attacks: Sequence[Attack],
) -> Evidence:
    clicked = truth.clicks.any(axis=1)
    shape = truth.clicks.shape
    nothing = Inference(scores=np.zeros(shape), guess=np.zeros(shape, dtype=np.bool_))
    return Evidence(
        query=names[clicked],
        is_document=record.shown[clicked] >= 0,
        clicks=truth.clicks[clicked],
        guessed={
            attack.label: Guessed(
                scores=answers.get(attack.label, nothing).scores[clicked],
                guess=answers.get(attack.label, nothing).guess[clicked],
            )
            for attack in attacks
        },
        baselines=frozenset(attack.label for attack in attacks if attack.baseline),
        skipped=int((~clicked).sum()),
        steps=int(truth.clipped.size),
        clipped=int(truth.clipped.sum()),
    )


def combined(pieces: Sequence[Evidence]) -> Evidence:
    """Evidence of several rounds or repetitions as one; all have the same attacks."""
    labels = list(pieces[0].guessed)
    return Evidence(
        query=np.concatenate([piece.query for piece in pieces]),
        is_document=np.concatenate([piece.is_document for piece in pieces]),
        clicks=np.concatenate([piece.clicks for piece in pieces]),
        guessed={
            label: Guessed(
                scores=np.concatenate([piece.guessed[label].scores for piece in pieces]),
                guess=np.concatenate([piece.guessed[label].guess for piece in pieces]),
            )
            for label in labels
        },
        baselines=pieces[0].baselines,
        skipped=sum(piece.skipped for piece in pieces),
        steps=sum(piece.steps for piece in pieces),
        clipped=sum(piece.clipped for piece in pieces),
    )
