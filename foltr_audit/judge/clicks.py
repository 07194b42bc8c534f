"""The only holder of view and truth: runs attacks on recorded messages and sets the truth beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.plugins.answers import one_of
from foltr_audit.core.records.client_groups import ONE_GROUP, ClientGroups
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference, Knowledge
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge.click_evidence import ClickEvidence, ClickGuesses, combined
from foltr_audit.judge.identifiability import Identifiability, identifiability, nothing_identifiable
from foltr_audit.judge.observer import Observer, RoundView
from foltr_audit.judge.view_builder import InteractionPlacement, query_names
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.progress import NO_TICK, Tick


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundAnswers:
    """What attacks said of a round's I interactions.

    Attributes:
        guessed: each attack's answers, by label.
        refused: why an attack cannot run on this view, by label.
    """

    guessed: dict[str, ClickGuesses]
    refused: dict[str, str]


AnyAttack = TypeVar("AnyAttack", bound=Attack)

Watch = Callable[[Attack, RoundView, Inference], None]
"""Is shown every answer of every attack beside what the attack saw."""


def infer_round(
    record: RoundRecord,
    observer: Observer,
    attacks: Sequence[Attack],
    streams: Streams,
    watch: Watch | None = None,
) -> RoundAnswers:
    """Each attack's answer for every interaction of a round; `watch` is shown the answers as they come.

    BLAS is held to one thread, so that the answers do not depend on their number.
    """
    from threadpoolctl import threadpool_limits

    placement = InteractionPlacement.of(record)
    at = (placement.slot, placement.place)
    pieces: dict[str, list[ClickGuesses]] = {attack.label: [] for attack in attacks}
    refused: dict[str, str] = {}
    with threadpool_limits(limits=1, user_api="blas"):
        for seen in observer.views(record):
            place = f"{record.round}/{seen.rows.start}"
            for attack, rng in able(attacks, seen.view, streams, place, refused):
                try:
                    answer = checked_answer(attack, seen.view, rng)
                except np.linalg.LinAlgError as error:  # of messages near the end of the range
                    refused[attack.label] = f"its equations cannot be solved in round {record.round}: {error}"
                    continue
                pieces[attack.label].append(_guessed(seen, answer))
                if watch is not None:
                    watch(attack, seen, answer)
    guessed = {
        label: ClickGuesses.joined(mine).at(at)
        for label, mine in pieces.items()
        if mine and label not in refused
    }
    return RoundAnswers(guessed=guessed, refused=refused)


def able(
    attacks: Sequence[AnyAttack], view: View, streams: Streams, place: str, refused: dict[str, str]
) -> Iterator[tuple[AnyAttack, np.random.Generator]]:
    """The attacks that can run on a view, each with a random stream of its own at this place.

    Why the others cannot is added to `refused`, by label.
    """
    for attack in attacks:
        reason = attack.why_not(view)
        if reason is None:
            yield attack, streams.generator(f"attack/{attack.text}/{place}")
        else:
            refused[attack.label] = reason


class _Surprisals:
    """How surprising the true clicks on each list are, to who knows all before a message, and to attacks.

    Attributes:
        exact: labels of the attacks that weighed patterns by their true posterior in every view.
    """

    def __init__(self, record: RoundRecord, truth: RoundTruth, observer: Observer) -> None:
        placement = InteractionPlacement.of(record)
        self._at = (placement.slot, placement.place)
        self._clicks = placement.spread(truth.clicks, False)
        self._header = observer.header
        self._pieces: dict[str, list[NDArray[np.float64]]] = {}
        self._inexact: set[str] = set()

    def watch(self, attack: Attack, seen: RoundView, answer: Inference) -> None:
        """Look at one answer; its patterns are not kept."""
        clicks = self._clicks[seen.rows]
        if seen.order is not None:
            clicks = np.take_along_axis(clicks, seen.order, axis=2)
        bits = np.full(clicks.shape[:2], np.nan)
        if answer.patterns is not None:
            number = (clicks @ (1 << np.arange(clicks.shape[2])))[..., np.newaxis]
            with np.errstate(divide="ignore"):
                bits = -np.log2(np.take_along_axis(answer.patterns, number, axis=2)[..., 0])
        self._pieces.setdefault(attack.label, []).append(bits)
        if answer.patterns is None or not (
            _describes_all(self._header, seen.view.knowledge) and attack.exact_posterior(seen.view)
        ):
            self._inexact.add(attack.label)

    @property
    def exact(self) -> frozenset[str]:
        """See the class."""
        return frozenset(self._pieces) - self._inexact

    def beside(self, label: str, guessed: ClickGuesses) -> ClickGuesses:
        """An attack's answers with the surprisal of each list."""
        bits = np.concatenate(self._pieces[label])[self._at]
        return guessed if np.isnan(bits).all() else replace(guessed, surprisal=bits)

    def before(self, seen: RoundView) -> NDArray[np.float64]:
        """-log2 of the probability of each list's clicks before its message, for who knows grades, (n, B)."""
        view, clicks = seen.view, self._clicks[seen.rows]
        bits, every = np.full(clicks.shape[:2], np.nan), np.arange(len(view))
        if view.knowledge.belief is None or view.labels is None or self._header.intents > 1:
            return bits  # under several intents grades alone do not say how a user clicks
        decoder = PatternDecoder(view, "relevance")
        for b in range(clicks.shape[1]):
            bits[:, b] = -decoder.log_prior_of(every, b, clicks[:, b]) / np.log(2.0)
        return bits


def _describes_all(header: TraceHeader, known: Knowledge) -> bool:
    """Whether an observer knows how users click, and what every defense does: a clip or a noise law."""
    chain = header.knowledge.get("defense")
    if not isinstance(chain, list) or known.noise is None or header.intents > 1:
        return False
    laws = [law for law in parts(known.noise) if law != "none"]
    balls = int(known.clip is not None)
    return len([link for link in chain if link != "none"]) == len(laws) + balls


def _knows_clips(header: TraceHeader, truth: RoundTruth) -> bool:
    """Whether the truth says which steps were clipped: another system that declares no clip may not know."""
    return bool(header.spec_hash) or "clip_norm" in header.knowledge or bool(truth.clipped.any())


def _facts(
    record: RoundRecord, observer: Observer, bits: _Surprisals
) -> tuple[Identifiability, NDArray[np.float64]]:
    """What the messages of a round can tell an observer that knows everything; arrays (I, ...).

    Also how surprising each list's clicks are before its message, (I,).
    """
    placement = InteractionPlacement.of(record)
    at = (placement.slot, placement.place)
    pieces, before = [], []
    for seen in observer.knowing.views(record):
        pieces.append(identifiability(seen.view))
        before.append(bits.before(seen))
    if not pieces:
        return nothing_identifiable(0, 0, record.shown.shape[1]).at(at), np.empty(0)
    facts = Identifiability(*(np.concatenate(arrays) for arrays in zip(*pieces, strict=True)))
    return facts.at(at), np.concatenate(before)[at]


def _guessed(seen: RoundView, answer: Inference) -> ClickGuesses:
    any_click = answer.any_click
    if any_click is None:
        any_click = np.where(seen.view.is_document, answer.scores, -np.inf).max(axis=2, initial=-np.inf)
    return ClickGuesses(
        scores=seen.restored(answer.scores), guess=seen.restored(answer.guess), any_click=any_click
    )


def checked_answer(attack: Attack, view: View, rng: np.random.Generator) -> Inference:
    """An attack's answer, in which every shown document has a score.

    Raises:
        PluginError: arrays of another shape, or a score that is no number.
    """
    with np.errstate(all="ignore"):  # a foreign trace may hold numbers near the end of the range
        answer = one_of(f"attack {attack.name}: infer", attack.infer(view, rng), Inference)
    for name, shape in (
        ("scores", view.shown.shape),
        ("guess", view.shown.shape),
        ("any_click", view.shown.shape[:2]),
    ):
        given = getattr(answer, name)
        if given is not None and given.shape != shape:
            raise PluginError(f"attack {attack.name}: {name} of shape {given.shape}; expected {shape}")
    if np.isnan(answer.scores[view.is_document]).any():
        raise PluginError(f"attack {attack.name}: it gave a shown document the score NaN; expected a number")
    return answer


def judge(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    streams: Streams,
    tick: Tick = NO_TICK,
    groups: ClientGroups = ONE_GROUP,
) -> ClickEvidence:
    """Run attacks on every recorded message and set their answers beside the truth.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: the attacks, with different labels.
        streams: named random streams for attacks that draw.
        tick: called after every round.
        groups: the groups that the clients behind the messages are in.

    Raises:
        UsageError: the recording holds no truth.
    """
    if not recording.has_truth:
        raise UsageError(
            "trace: it holds no truth, so nothing can be scored; write guesses with --guesses FILE"
        )
    pieces = []
    for record, truth in zip(recording.rounds(), recording.truths(), strict=True):
        bits = _Surprisals(record, truth, observer)
        answers = infer_round(record, observer, attacks, streams, bits.watch)
        names = query_names(record, observer.header, observer.collection)
        judged = _judged(record, truth, names, answers, attacks, observer, bits)
        group = groups.of_clients(truth.clients)[record.slot]
        pieces.append(replace(judged, group=group, groups=groups.names))
        tick()
    if not pieces:
        raise UsageError("trace: it holds no round yet")
    return combined(pieces)


def _judged(
    record: RoundRecord,
    truth: RoundTruth,
    names: NDArray[np.str_],
    answers: RoundAnswers,
    attacks: Sequence[Attack],
    observer: Observer,
    bits: _Surprisals,
) -> ClickEvidence:
    pairs = observer.header.knowledge.get("pairs")
    there = record.shown >= 0
    of_models = observer.header.holds_models
    observed = there
    if of_models:
        observed = observed_documents(truth.clicks, there, only_observed=pairs == "last-click+1")
    facts, before = _facts(record, observer, bits)
    return ClickEvidence(
        query=names,
        message=record.slot,
        shown=record.shown,
        clicks=truth.clicks,
        observed=observed,
        told=facts.told(truth.clicks, observed),
        rank=facts.rank,
        unknowns=facts.unknowns,
        guessed={label: bits.beside(label, guessed) for label, guessed in answers.guessed.items()},
        baselines=frozenset(attack.label for attack in attacks if attack.baseline),
        probabilities=frozenset(attack.label for attack in attacks if attack.probabilities),
        surprisal=before,
        exact=bits.exact,
        same_message=of_models,
        refused=answers.refused,
        steps=int(truth.clipped.size) if _knows_clips(observer.header, truth) else 0,
        clipped=int(truth.clipped.sum()),
    )
