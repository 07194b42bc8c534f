"""Judges attacks that ask with which intent a client searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import IntentAttack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.click_evidence import answered, refused_in
from foltr_audit.judge.clicks import able, checked_answer
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.shuffle import shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_MIXED = -1
_NO_TRUTH = "the recording does not say what the intents were; expected data with several, see --intents"


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentDecisions:
    """Decisions of one attack: D times the intent behind some messages of one client.

    Attributes:
        client: name of each decision's client, (D,).
        intent: the truth, from 0, int64 (D,).
        probability: what the attack gave each intent, float64 (D, I).
        shown: share of the relevant documents that were relevant under each intent, of those that the
            messages' lists showed, float64 (D, I): what tells the intent without a message.
        messages: how many messages each decision weighs.
        mixed: decisions left out because several intents are behind their messages.
        left_over: messages left out because their client sent too few.
    """

    client: NDArray[np.str_]
    intent: Ints
    probability: Floats
    shown: Floats
    messages: int
    mixed: int
    left_over: int

    @classmethod
    def joined(cls, pieces: Sequence[IntentDecisions]) -> IntentDecisions:
        """Decisions one after the other."""
        return cls(
            client=np.concatenate([piece.client for piece in pieces]),
            intent=np.concatenate([piece.intent for piece in pieces]),
            probability=np.concatenate([piece.probability for piece in pieces]),
            shown=np.concatenate([piece.shown for piece in pieces]),
            messages=pieces[0].messages,
            mixed=sum(piece.mixed for piece in pieces),
            left_over=sum(piece.left_over for piece in pieces),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentEvidence:
    """What attacks said of intents.

    Attributes:
        told: each attack's decisions, by label.
        refused: why an attack could not run, by label.
    """

    told: dict[str, IntentDecisions] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def combined_intents(pieces: Sequence[IntentEvidence]) -> IntentEvidence:
    """Evidence of several repetitions as one; an attack that any of them refused is refused."""
    refused = refused_in(pieces)
    labels = answered([piece.told for piece in pieces], refused)
    return IntentEvidence(
        told={label: IntentDecisions.joined([piece.told[label] for piece in pieces]) for label in labels},
        refused=refused,
    )


def judge_intents(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[IntentAttack],
    streams: Streams,
    tick: Tick = NO_TICK,
) -> IntentEvidence:
    """Have attacks tell the intent behind recorded messages, one or several of a client at a time.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: attacks that ask for an intent, with different labels.
        streams: named random streams of attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth, or no message.
    """
    if not recording.has_truth:
        raise UsageError("trace: it holds no truth, so nothing can be scored")
    heard, refused = _IntentCollector(), dict[str, str]()
    for recorded, known in zip(recording.rounds(), recording.truths(), strict=True):
        record, truth = shuffled(recorded, known, streams)
        if record.n_messages:
            heard.listen(record, truth, observer, attacks, streams, refused)
        tick()
    if not heard.clients:
        raise UsageError("trace: it holds no message yet")
    found = {attack.label: heard.told(attack) for attack in attacks if attack.label not in refused}
    for label, told in found.items():
        if not told.client.size:
            refused[label] = _why_none(told)
    return IntentEvidence(
        told={label: told for label, told in found.items() if label not in refused}, refused=refused
    )


def _why_none(told: IntentDecisions) -> str:
    if told.mixed:
        return f"several intents are behind each of {told.mixed} decisions; expected clients with one each"
    return f"no client sent {told.messages} messages; expected fewer in messages="


class _IntentCollector:
    """All messages of a recording, round after round: whose, of which intent, and what attacks said."""

    def __init__(self) -> None:
        self.clients: list[Ints] = []
        self._intents: list[Ints] = []
        self._shown: list[Floats] = []
        self._likely: dict[str, list[Floats]] = {}

    def listen(
        self,
        record: RoundRecord,
        truth: RoundTruth,
        observer: Observer,
        attacks: Sequence[IntentAttack],
        streams: Streams,
        refused: dict[str, str],
    ) -> None:
        """Take one round."""
        from threadpoolctl import threadpool_limits

        self.clients.append(truth.clients)
        if truth.intents is None:
            refused |= {attack.label: _NO_TRUTH for attack in attacks}
            return
        self._intents.append(message_intents(record.slot, record.n_messages, truth.intents))
        with threadpool_limits(limits=1, user_api="blas"):
            for seen in observer.views(record):
                place = f"{record.round}/{seen.rows.start}"
                for attack, rng in able(attacks, seen.view, streams, place, refused):
                    self._likely.setdefault(attack.label, []).append(_likelihoods(attack, seen.view, rng))
        self._shown += [relevant_shown(seen.view) for seen in observer.knowing.views(record)]

    def told(self, attack: IntentAttack) -> IntentDecisions:
        """The decisions of an attack that ran in every view: T messages of a client at a time, in order."""
        clients, intents = np.concatenate(self.clients), np.concatenate(self._intents)
        likely, shown = np.concatenate(self._likely[attack.label]), np.concatenate(self._shown)
        T, order = attack.messages, np.argsort(clients, kind="stable")
        _, first, sent = np.unique(clients[order], return_index=True, return_counts=True)
        turn = np.arange(clients.size) - np.repeat(first, sent)
        taken = order[turn < np.repeat(sent // T * T, sent)].reshape(-1, T)
        intent = intents[taken]
        same = (intent == intent[:, :1]).all(axis=1) & (intent[:, 0] != _MIXED)
        kept = taken[same]
        return IntentDecisions(
            client=clients[kept[:, 0]].astype(np.str_),
            intent=intent[same, 0],
            probability=_probabilities(likely[kept].sum(axis=1), attack.prior(likely.shape[1])),
            shown=_shares(shown[kept].sum(axis=1)),
            messages=T,
            mixed=int((~same).sum()),
            left_over=clients.size - taken.size,
        )


def message_intents(slot: Ints, messages: int, intents: Ints) -> Ints:
    """The intent of each of M messages, from those of interactions (I,) in their slots; -1 if they differ."""
    lowest = np.full(messages, np.iinfo(np.int64).max)
    highest = np.full(messages, _MIXED)
    np.minimum.at(lowest, slot, intents)
    np.maximum.at(highest, slot, intents)
    return np.where(lowest == highest, highest, _MIXED)


def relevant_shown(view: View) -> Floats:
    """How many shown documents are relevant under each intent, (n, I)."""
    if view.intent_labels is None:
        return np.zeros((len(view), 1))
    return np.asarray((view.intent_labels > 0).sum(axis=(1, 2)), dtype=np.float64)


def _likelihoods(attack: IntentAttack, view: View, rng: np.random.Generator) -> Floats:
    found = checked_answer(attack, view, rng).intents
    intents = 0 if view.intent_labels is None else view.intent_labels.shape[3]
    if found is None or found.shape != (len(view), intents) or not np.all(found < np.inf):
        raise PluginError(
            f"attack {attack.name}: expected a log likelihood for each intent, shape {(len(view), intents)}"
        )
    return found


def _probabilities(likely: Floats, prior: Floats) -> Floats:
    """Posterior (D, I) of summed log likelihoods; where messages exclude every intent, the prior (I,)."""
    top = likely.max(axis=1, keepdims=True)
    known = np.isfinite(top)
    masses = np.where(known, np.exp(likely - np.where(known, top, 0.0)), 1.0) * prior
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    even = np.full_like(counts, 1.0 / counts.shape[1])
    return np.asarray(np.divide(counts, total, out=even, where=total > 0))
