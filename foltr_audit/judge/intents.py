"""Judges attacks that infer the intent with which a client searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, IntentAttack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference
from foltr_audit.inference.intent_likelihood import posteriors
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.observer import RoundView
from foltr_audit.judge.pieces import SUMMED
from foltr_audit.judge.queries import TruthRanks
from foltr_audit.judge.task import Evidence, JudgeSetting, MessageTask, TaskScore, answer_of, refuse_values
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints

_MIXED = -1  # several intents are behind a message
_NO_TRUTH = "the recording does not hold the intents; expected data with several, see --intents"


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentDecisions:
    """Decisions of one attack: D of them, each on the intent behind some messages of one client.

    Attributes:
        intent: the truth, from 0, int64 (D,).
        probability: that the attack gave each intent, float64 (D, I).
        shown: of the relevant documents in the messages' lists, the share that is relevant under each
            intent, float64 (D, I): what the lists reveal of the intent without a message.
        prior: share of the most frequent intent among the decisions on messages of the same rounds, float64
            (D,): what the rounds reveal of the intent without a message.
        messages: how many messages each decision weighs.
        mixed: decisions left out because several intents are behind their messages.
        left_over: messages left out because their client sent too few.
    """

    client: NDArray[np.str_]
    intent: Ints
    probability: Floats
    shown: Floats
    prior: Floats
    messages: int
    mixed: int = field(metadata=SUMMED)
    left_over: int = field(metadata=SUMMED)

    @property
    def bits(self) -> Floats:
        """What decisions reveal beyond even odds: log2 of the truth's probability times I, (D,)."""
        own = np.take_along_axis(self.probability, self.intent[:, np.newaxis], axis=1)[:, 0]
        return np.asarray(np.log2(np.maximum(own, np.finfo(np.float64).tiny) * self.probability.shape[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class IntentEvidence(Evidence):
    """What attacks inferred about intents: each attack's decisions, by label."""

    told: dict[str, IntentDecisions] = field(default_factory=dict)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """How often the intent is named; intervals are over clients.

        `accuracy` is the share of decisions that are right, ties broken at random, `balanced_accuracy` the
        mean over intents of the share among those of that intent, `probability` what the truth is given on
        average. With them go `chance`, `most_frequent`, the share of the most frequent intent, and `shown`,
        with `shown_balanced`, what naming the intent gives whose relevant documents were shown most.
        """
        for label, told in self.told.items():
            resamples, intents = QueryBootstrap(told.client, streams), told.probability.shape[1]
            counts = np.bincount(told.intent, minlength=intents)
            named, shown = (TruthRanks.of(said, told.intent) for said in (told.probability, told.shown))
            weights = 1.0 / counts[told.intent]
            facts = {
                "intents": intents,
                "messages_together": told.messages,
                "decisions": int(told.intent.size),
                "clients": int(resamples.names.size),
                "mixed": told.mixed,
                "left_over": told.left_over,
                "chance": 1.0 / intents,
                "most_frequent": float(counts.max() / told.intent.size),
            }
            metrics = {
                "shown": resamples.share(shown.first),
                "shown_balanced": resamples.ratio(shown.first * weights, weights, lowest=0.0, highest=1.0),
                "accuracy": resamples.share(named.first),
                "balanced_accuracy": resamples.ratio(named.first * weights, weights, lowest=0.0, highest=1.0),
                "probability": resamples.share(named.probability),
                "bits": resamples.mean(told.bits),
            }
            yield TaskScore(method=label, facts=facts, metrics=metrics, priors=told.prior)


class IntentTask(MessageTask[IntentEvidence]):
    """With which intent a client searched, from one or several of its messages at a time."""

    name: ClassVar[str] = "intent"
    asks_of: ClassVar[type[Attack]] = IntentAttack
    shuffled: ClassVar[bool] = True

    def __init__(self, attacks: Sequence[Attack], setting: JudgeSetting) -> None:
        super().__init__(attacks, setting)
        self._clients: list[Ints] = []
        self._rounds: list[Ints] = []
        self._intents: list[Ints] = []
        self._shown: list[Floats] = []
        self._likely: dict[str, list[Floats]] = {}

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        if not super().begin(record, truth):
            return False
        if truth.intents is None:
            self.session.refuse_all(_NO_TRUTH)
        return truth.intents is not None

    def see(self, seen: RoundView) -> None:
        super().see(seen)
        self._shown.append(relevant_shown(seen.full))

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """The log likelihood of each message under each intent, (n, I)."""
        what = "a log likelihood for each intent"
        intents = 0 if view.intent_labels is None else view.intent_labels.shape[3]
        found = answer_of(attack, answer, (len(view), intents), what)
        refuse_values(attack, np.all(found < np.inf), what)
        return found

    def judged(self, answers: Mapping[str, Floats]) -> None:
        self._clients.append(self.truth.clients)
        self._rounds.append(np.full(self.truth.clients.size, self.record.round))
        if self.truth.intents is not None:
            slot, messages = self.record.slot, self.record.n_messages
            self._intents.append(message_intents(slot, messages, self.truth.intents))
        for label, rows in answers.items():
            self._likely.setdefault(label, []).append(rows)

    def evidence(self) -> IntentEvidence:
        if not self._clients:
            return super().evidence()
        told, refused = {}, dict(self.session.refused)
        for attack in self.session.attacks:
            if attack.label not in refused and isinstance(attack, IntentAttack):
                found = self._decisions(attack, np.concatenate(self._likely[attack.label]))
                if found.client.size:
                    told[attack.label] = found
                else:
                    refused[attack.label] = _why_none(found)
        return IntentEvidence(told=told, refused=refused)

    def _decisions(self, attack: IntentAttack, likely: Floats) -> IntentDecisions:
        """The decisions of an attack with these log likelihoods (M, I): T messages of a client at a time."""
        clients, intents = np.concatenate(self._clients), np.concatenate(self._intents)
        shown = np.concatenate(self._shown)
        rounds = np.concatenate(self._rounds)
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
            prior=usual_intent(intent[same, 0], rounds[kept]),
            messages=T,
            mixed=int((~same).sum()),
            left_over=clients.size - taken.size,
        )


def _why_none(found: IntentDecisions) -> str:
    if found.mixed:
        return f"several intents are behind each of {found.mixed} decisions; expected clients with one each"
    return f"no client sent {found.messages} messages; expected fewer in messages="


def message_intents(slot: Ints, messages: int, intents: Ints) -> Ints:
    """The intent of each of M messages, from those of interactions (I,) in their slots; -1 if they differ."""
    lowest = np.full(messages, np.iinfo(np.int64).max)
    highest = np.full(messages, _MIXED)
    np.minimum.at(lowest, slot, intents)
    np.maximum.at(highest, slot, intents)
    return np.where(lowest == highest, highest, _MIXED)


def usual_intent(intents: Ints, rounds: Ints) -> Floats:
    """Share of the most frequent intent among decisions (D,) on messages of the same rounds (D, T): (D,)."""
    _, group = np.unique(rounds, axis=0, return_inverse=True)
    counts = np.zeros((intents.size, intents.max(initial=0) + 1))
    np.add.at(counts, (group.reshape(-1), intents), 1.0)
    return np.asarray(counts.max(axis=1) / np.maximum(counts.sum(axis=1), 1.0))[group.reshape(-1)]


def relevant_shown(view: View) -> Floats:
    """How many shown documents are relevant under each intent, (n, I)."""
    if view.intent_labels is None:
        return np.zeros((len(view), 1))
    return np.asarray((view.intent_labels > 0).sum(axis=(1, 2)), dtype=np.float64)


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=1, keepdims=True)
    even = np.full_like(counts, 1.0 / counts.shape[1])
    return np.asarray(np.divide(counts, total, out=even, where=total > 0))
