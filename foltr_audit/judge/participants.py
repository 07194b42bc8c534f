"""Judges attacks that infer what lasts about each client, from the sums of many rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import (
    Attack,
    ParticipantAttack,
    ParticipantEstimates,
    Participation,
    RoundMembers,
    View,
)
from foltr_audit.core.plugins.answers import array_of, one_of
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.intents import message_intents
from foltr_audit.judge.observer import RoundView
from foltr_audit.judge.queries import TruthRanks
from foltr_audit.judge.round_sums import SummedRound, SummedTruth
from foltr_audit.judge.task import (
    Evidence,
    JudgeSetting,
    MessageTask,
    TaskScore,
    answer_of,
    no_rows,
    refuse_values,
)
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats, Ints

_MOST_CLIENTS = 3000
_ABOVE = 2.0  # cosines plus this are positive
_ROUNDING = 1e-12
_UNKNOWN = -1  # a client with several intents, or data with one


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticipantGuesses:
    """How near one attack, or baseline, comes to each of N clients.

    The cosine (N,) is that of the estimated and the true mean update, both less their means over clients. The
    client's own mean update is `placed` among those of all clients, by how near it is to the estimate.
    `intent` is the chance that the client's intent is named, ties broken at random, (N,), NaN where unknown.
    """

    cosine: Floats
    placed: TruthRanks
    intent: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ParticipantEvidence(Evidence):
    """N clients of whom the sums of rounds may tell something; arrays (N,).

    Attributes:
        others: clients among whom each is named, itself included.
        turns: rounds in which each took part.
        members: how many clients each sum has on average, the same for all.
        rounds: how many sums there are, the same for all.
        intent: of each, -1 where unknown.
        told, baselines: what attacks said, by label, and the same without an attack.
    """

    client: NDArray[np.str_] = no_rows(np.str_)
    others: Ints = no_rows(np.int64)
    turns: Ints = no_rows(np.int64)
    members: Floats = no_rows(np.float64)
    rounds: Ints = no_rows(np.int64)
    intent: Ints = no_rows(np.int64)
    told: dict[str, ParticipantGuesses] = field(default_factory=dict)
    baselines: dict[str, ParticipantGuesses] = field(default_factory=dict)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """How well clients are told apart, by simple ways first; intervals are over clients.

        `cosine` is the mean over clients of the cosine of the estimated and the true mean update, both less
        their means over clients; `named` the share of clients whose own mean update is nearest to the
        estimate among those of all clients, with `chance` that of guessing; `intent` the share whose intent
        is named, with `most_frequent` the share of the most frequent one. `mean` says the same of everybody;
        `own-mean` is the mean of the sums of a client's rounds; `shown` names the intent of which most
        relevant documents were shown.
        """
        if not self.client.size:
            return
        resamples = QueryBootstrap(self.client, streams)
        known = self.intent[self.intent != _UNKNOWN]
        facts = {
            "clients": int(self.client.size),
            "rounds": float(self.rounds.mean()),
            "members": float(self.members.mean()),
            "turns": float(self.turns.mean()),
            "chance": float(np.mean(1.0 / self.others)),
            "clients_with_intent": int(known.size),
            "most_frequent": float(np.bincount(known).max() / known.size) if known.size else float("nan"),
        }
        for label, said in (*self.baselines.items(), *self.told.items()):
            metrics = {
                "cosine": resamples.mean(said.cosine),
                "named": resamples.share(said.placed.first),
                "intent": resamples.share(said.intent),
            }
            yield TaskScore(method=label, baseline=label in self.baselines, facts=facts, metrics=metrics)


class ParticipantTask(MessageTask[ParticipantEvidence]):
    """What lasts about each client: its mean update, and its intent, from the sums of all rounds."""

    name: ClassVar[str] = "participant"
    asks_of: ClassVar[type[Attack]] = ParticipantAttack

    def __init__(self, attacks: Sequence[Attack], setting: JudgeSetting) -> None:
        super().__init__(attacks, setting)
        self._sums: list[Floats] = []
        self._weights: list[Floats] = []
        self._truths: list[SummedTruth] = []
        self._owners: list[Ints] = []
        self._intents: list[Ints] = []
        self._shown: list[Floats] = []
        self._said: dict[str, list[Floats]] = {}

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        """Keep the truth; refuse all attacks where it is not about sums, or lacks what clients learnt."""
        if not super().begin(record, truth):
            return False
        if not isinstance(record, SummedRound) or not isinstance(truth, SummedTruth):
            self.session.refuse_all("it reads sums of rounds")
            return False
        if not truth.member_updates.size or np.isnan(truth.member_updates).any():
            self.session.refuse_all("the recording does not hold what each client learnt")
            return False
        self._weights.append(record.weights)
        self._truths.append(truth)
        self._owners.append(record.origins)
        intents = np.full(record.origins.size, _UNKNOWN) if truth.intents is None else truth.intents
        self._intents.append(message_intents(record.origins, record.weights.size, intents))
        return True

    def see(self, seen: RoundView) -> None:
        super().see(seen)
        self._sums.append(seen.full.updates[0])
        labels = seen.full.intent_labels
        relevant = np.zeros((self._owners[-1].size, 1)) if labels is None else (labels[0] > 0).sum(axis=1)
        self._shown.append(relevant.astype(np.float64))

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """What the attack says of the sum, (1, F)."""
        return answer_of(attack, answer, (len(view), None), "a description of each sum")

    def judged(self, answers: Mapping[str, Floats]) -> None:
        for label, rows in answers.items():
            self._said.setdefault(label, []).append(rows[0])

    def evidence(self) -> ParticipantEvidence:
        """The estimates of each attack next to the truth; without any sum, every attack is refused."""
        if not self._truths:
            if not self.session.refused:
                self.session.refuse_all("no round has a sum")
            return ParticipantEvidence(refused=self.session.refused)
        clients = np.unique(np.concatenate([truth.members for truth in self._truths]))
        if clients.size > _MOST_CLIENTS:
            self.session.refuse_all(
                f"it solves for {_MOST_CLIENTS} clients at most; {clients.size} take part"
            )
        members = (
            RoundMembers(np.searchsorted(clients, truth.members), weights)
            for truth, weights in zip(self._truths, self._weights, strict=True)
        )
        taking_part = Participation(clients=clients.size, rounds=tuple(members))
        matrix = taking_part.matrix
        truth = self._true_updates(taking_part) / matrix.sum(axis=0)[:, np.newaxis]
        owners = np.concatenate([each.clients for each in taking_part.rounds])
        intent = message_intents(owners, taking_part.clients, np.concatenate(self._intents))
        estimates, baselines = self._estimates(taking_part, truth.shape[1]), self._baselines(taking_part)
        return ParticipantEvidence(
            client=clients.astype(np.str_),
            others=np.full(clients.size, clients.size),
            turns=(matrix > 0).sum(axis=0),
            members=np.full(clients.size, (matrix > 0).sum() / len(matrix)),
            rounds=np.full(clients.size, len(matrix)),
            intent=intent,
            told={label: guessed(said, truth, intent) for label, said in estimates.items()},
            baselines={name: guessed(said, truth, intent) for name, said in baselines.items()},
            refused=dict(self.session.refused),
        )

    def _estimates(self, taking_part: Participation, parameters: int) -> dict[str, ParticipantEstimates]:
        """What each attack says of the clients, checked."""
        out = {}
        for attack in self.session.attacks:
            if attack.label not in self.session.refused and isinstance(attack, ParticipantAttack):
                with np.errstate(all="ignore"):
                    said = attack.participants(self._said[attack.label], taking_part)
                who = f"attack {attack.name}: participants"
                said = one_of(who, said, ParticipantEstimates)
                updates = array_of(f"{who}: updates", said.updates, (taking_part.clients, parameters))
                refuse_values(attack, np.all(np.isfinite(updates)), "a mean update of each client")
                if said.intents is not None:
                    wanted = (taking_part.clients, self._shown[0].shape[1])
                    intents = array_of(f"{who}: intents", said.intents, wanted)
                    refuse_values(attack, np.all(np.isfinite(intents)), "what speaks for each intent")
                out[attack.label] = said
        return out

    def _baselines(self, taking_part: Participation) -> dict[str, ParticipantEstimates]:
        """The same for everybody; the mean sum of a client's rounds; and what its lists show."""
        matrix, sums = taking_part.matrix, np.array(self._sums)
        size = matrix.sum(axis=1)
        everybody = np.broadcast_to(sums.sum(axis=0) / size.sum(), (taking_part.clients, sums.shape[1]))
        own = matrix.T @ (sums / size[:, np.newaxis]) / matrix.sum(axis=0)[:, np.newaxis]
        return {
            "mean": ParticipantEstimates(everybody),
            "own-mean": ParticipantEstimates(own),
            "shown": ParticipantEstimates(everybody, self._shown_by_client(taking_part)),
        }

    def _true_updates(self, taking_part: Participation) -> Floats:
        """The weighted sum of each client's true updates, (N, P)."""
        out = np.zeros((taking_part.clients, self._truths[0].member_updates.shape[1]))
        for truth, members in zip(self._truths, taking_part.rounds, strict=True):
            np.add.at(out, members.clients, members.weights[:, np.newaxis] * truth.member_updates)
        return out

    def _shown_by_client(self, taking_part: Participation) -> Floats:
        """Relevant documents under each intent that were shown to each client, (N, I)."""
        out = np.zeros((taking_part.clients, self._shown[0].shape[1]))
        for shown, owners, members in zip(self._shown, self._owners, taking_part.rounds, strict=True):
            np.add.at(out, members.clients[owners], shown)
        return out


def guessed(said: ParticipantEstimates, truth: Floats, intent: Ints) -> ParticipantGuesses:
    """How near estimates come to the true mean updates (N, P) and intents (N,), -1 where unknown."""
    cosines = _directions(said.updates) @ _directions(truth).T
    named = np.full(intent.size, np.nan)
    if said.intents is not None:
        known = intent != _UNKNOWN
        most = said.intents.max(axis=1, keepdims=True) == said.intents
        right = np.take_along_axis(most, np.maximum(intent, 0)[:, np.newaxis], axis=1)[:, 0]
        named[known] = (right / most.sum(axis=1))[known]
    return ParticipantGuesses(
        cosine=np.diagonal(cosines).copy(),
        placed=TruthRanks.of(_ABOVE + cosines, np.arange(intent.size)),
        intent=named,
    )


def _directions(rows: Floats) -> Floats:
    """Rows (N, P) less their mean, of length 1; of length 0 where nothing is left but rounding."""
    away = rows - rows.mean(axis=0)
    length = np.linalg.norm(away, axis=1, keepdims=True)
    least = _ROUNDING * np.abs(rows).max(initial=0.0)
    return np.asarray(np.divide(away, length, out=np.zeros_like(away), where=length > least))
