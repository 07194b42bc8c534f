"""Judges attacks that infer the intent with which a client searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import IntentAttack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.inference.intent_likelihood import posteriors
from foltr_audit.judge.attack_session import NO_MESSAGE, AttackSession, rounds_with_truth
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import SUMMED
from foltr_audit.judge.shuffle import shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_MIXED = -1  # several intents are behind a message
_NO_TRUTH = "the recording does not hold the intents; expected data with several, see --intents"


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentDecisions:
    """Decisions of one attack: D of them, each on the intent behind some messages of one client.

    Attributes:
        client: name of each decision's client, (D,).
        intent: the truth, from 0, int64 (D,).
        probability: that the attack gave each intent, float64 (D, I).
        shown: of the relevant documents in the messages' lists, the share that is relevant under each
            intent, float64 (D, I): what the lists reveal of the intent without a message.
        messages: how many messages each decision weighs.
        mixed: decisions left out because several intents are behind their messages.
        left_over: messages left out because their client sent too few.
    """

    client: NDArray[np.str_]
    intent: Ints
    probability: Floats
    shown: Floats
    messages: int
    mixed: int = field(metadata=SUMMED)
    left_over: int = field(metadata=SUMMED)


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentEvidence:
    """What attacks inferred about intents.

    Attributes:
        told: each attack's decisions, by label.
        refused: why an attack could not run, by label.
    """

    told: dict[str, IntentDecisions] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def judge_intents(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[IntentAttack],
    streams: Streams,
    tick: Tick = NO_TICK,
) -> IntentEvidence:
    """Have attacks infer the intent behind recorded messages, one or several of a client at a time.

    Args:
        recording: observed rounds with their truth.
        observer: who sees them.
        attacks: attacks that infer intents, with different labels.
        streams: named random streams of attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth, or no message.
    """
    session, messages = AttackSession(attacks, streams), _IntentMessages([], [], [])
    for recorded, known in rounds_with_truth(recording, tick):
        record, truth = shuffled(recorded, known, streams)
        if record.n_messages:
            _read_round(record, truth, observer, session, messages)
    if not messages.clients:
        raise UsageError(NO_MESSAGE)
    told, refused, likely = {}, session.refused, session.collect()
    for attack in attacks:
        if attack.label not in refused:
            found = messages.decisions(attack, likely[attack.label])
            if found.client.size:
                told[attack.label] = found
            else:
                refused[attack.label] = _why_none(found)
    return IntentEvidence(told=told, refused=refused)


def _why_none(found: IntentDecisions) -> str:
    if found.mixed:
        return f"several intents are behind each of {found.mixed} decisions; expected clients with one each"
    return f"no client sent {found.messages} messages; expected fewer in messages="


def _read_round(
    record: RoundRecord,
    truth: RoundTruth,
    observer: Observer,
    session: AttackSession[IntentAttack],
    messages: _IntentMessages,
) -> None:
    messages.clients.append(truth.clients)
    if truth.intents is None:
        session.refused |= {attack.label: _NO_TRUTH for attack in session.attacks}
        return
    messages.intents.append(message_intents(record.slot, record.n_messages, truth.intents))
    for seen, full in observer.paired_views(record):
        place = f"{record.round}/{seen.rows.start}"
        for attack, answer in session.answers(seen.view, record.round, place):
            session.keep(attack, _likelihoods(attack, seen.view, answer))
        messages.shown.append(relevant_shown(full))


class _IntentMessages(NamedTuple):
    """All messages of a recording, each list round after round.

    Attributes:
        clients: the client of each message, (M,).
        intents: its intent, see `message_intents`, (M,).
        shown: see `relevant_shown`, (M, I).
    """

    clients: list[Ints]
    intents: list[Ints]
    shown: list[Floats]

    def decisions(self, attack: IntentAttack, likely: Floats) -> IntentDecisions:
        """The decisions of an attack with these log likelihoods (M, I): T messages of a client at a time."""
        clients, intents = np.concatenate(self.clients), np.concatenate(self.intents)
        shown = np.concatenate(self.shown)
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
            probability=posteriors(likely[kept].sum(axis=1), attack.prior(likely.shape[1])),
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


def _likelihoods(attack: IntentAttack, view: View, answer: Inference) -> Floats:
    """An attack's log likelihood of each message under each intent, (n, I)."""
    found, intents = answer.intents, 0 if view.intent_labels is None else view.intent_labels.shape[3]
    if found is None or found.shape != (len(view), intents) or not np.all(found < np.inf):
        raise PluginError(
            f"attack {attack.name}: expected a log likelihood for each intent, shape {(len(view), intents)}"
        )
    return found


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    even = np.full_like(counts, 1.0 / counts.shape[1])
    return np.asarray(np.divide(counts, total, out=even, where=total > 0))
