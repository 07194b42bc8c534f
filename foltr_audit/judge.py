"""The only holder of view and truth: runs attacks on recorded messages and sets the truth beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import PluginError, UsageError
from foltr_audit.evidence import Evidence, Guessed, combined
from foltr_audit.identifiable import Identifiability, identifiability, nothing_identifiable
from foltr_audit.learners.pdgd import observed_documents
from foltr_audit.observer import Observer, Seen
from foltr_audit.plugins import Attack, View
from foltr_audit.progress import NO_TICK, Tick
from foltr_audit.recording import Recording
from foltr_audit.records.rounds import RoundRecord, RoundTruth
from foltr_audit.records.view import Inference
from foltr_audit.rng import Streams
from foltr_audit.views import Placement, query_names


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """What attacks said of a round's I interactions.

    Attributes:
        guessed: each attack's answers, by label.
        refused: why an attack cannot run on this view, by label.
    """

    guessed: dict[str, Guessed]
    refused: dict[str, str]


def infer_round(
    record: RoundRecord, observer: Observer, attacks: Sequence[Attack], streams: Streams
) -> Answers:
    """Each attack's answer for every interaction of a round.

    BLAS is held to one thread, so that the answers do not depend on their number.
    """
    from threadpoolctl import threadpool_limits

    placement = Placement.of(record)
    at = (placement.slot, placement.place)
    pieces: dict[str, list[Guessed]] = {attack.label: [] for attack in attacks}
    refused: dict[str, str] = {}
    with threadpool_limits(limits=1, user_api="blas"):
        for seen in observer.views(record):
            place = f"{record.round}/{seen.rows.start}"
            for attack, rng in able(attacks, seen.view, streams, place, refused):
                pieces[attack.label].append(_guessed(attack, seen, rng))
    guessed = {
        label: Guessed.joined(mine).at(at) for label, mine in pieces.items() if mine and label not in refused
    }
    return Answers(guessed=guessed, refused=refused)


def able(
    attacks: Sequence[Attack], view: View, streams: Streams, place: str, refused: dict[str, str]
) -> Iterator[tuple[Attack, np.random.Generator]]:
    """The attacks that can run on a view, each with a random stream of its own at this place.

    Why the others cannot is added to `refused`, by label.
    """
    for attack in attacks:
        reason = attack.why_not(view)
        if reason is None:
            yield attack, streams.generator(f"attack/{attack.text}/{place}")
        else:
            refused[attack.label] = reason


def _facts(record: RoundRecord, observer: Observer) -> Identifiability:
    """What the messages of a round can tell an observer that knows everything; arrays (I, ...)."""
    placement = Placement.of(record)
    at = (placement.slot, placement.place)
    pieces = [identifiability(seen.view) for seen in observer.knowing.views(record)]
    if not pieces:
        return nothing_identifiable(0, 0, record.shown.shape[1]).at(at)
    return Identifiability(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True))).at(at)


def _guessed(attack: Attack, seen: Seen, rng: np.random.Generator) -> Guessed:
    answer = checked_answer(attack, seen.view, rng)
    any_click = answer.any_click
    if any_click is None:
        any_click = np.where(seen.view.is_document, answer.scores, -np.inf).max(axis=2, initial=-np.inf)
    return Guessed(
        scores=seen.restored(answer.scores), guess=seen.restored(answer.guess), any_click=any_click
    )


def checked_answer(attack: Attack, view: View, rng: np.random.Generator) -> Inference:
    """An attack's answer, in which every shown document has a score.

    Raises:
        PluginError: arrays of another shape, or a score that is no number.
    """
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
    observer: Observer,
    attacks: Sequence[Attack],
    streams: Streams,
    tick: Tick = NO_TICK,
) -> Evidence:
    """Run attacks on every recorded message and set their answers beside the truth.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
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
        answers = infer_round(record, observer, attacks, streams)
        names = query_names(record, observer.header, observer.collection)
        pieces.append(_judged(record, truth, names, answers, attacks, observer))
        tick()
    if not pieces:
        raise UsageError("trace: it holds no round yet")
    return combined(pieces)


def _judged(
    record: RoundRecord,
    truth: RoundTruth,
    names: NDArray[np.str_],
    answers: Answers,
    attacks: Sequence[Attack],
    observer: Observer,
) -> Evidence:
    pairs = observer.header.knowledge.get("pairs")
    there = record.shown >= 0
    observed = observed_documents(truth.clicks, there, only_observed=pairs == "last-click+1")
    facts = _facts(record, observer)
    return Evidence(
        query=names,
        message=record.slot,
        shown=record.shown,
        clicks=truth.clicks,
        observed=observed,
        told=facts.told(truth.clicks, observed),
        rank=facts.rank,
        unknowns=facts.unknowns,
        guessed=answers.guessed,
        baselines=frozenset(attack.label for attack in attacks if attack.baseline),
        probabilities=frozenset(attack.label for attack in attacks if attack.probabilities),
        refused=answers.refused,
        steps=int(truth.clipped.size),
        clipped=int(truth.clipped.sum()),
    )
