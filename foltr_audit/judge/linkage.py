"""Judges attacks that link messages: a client's message of the next round among those of other clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, LinkAttack, View
from foltr_audit.core.plugins.answers import array_of
from foltr_audit.core.records.view import Inference
from foltr_audit.inference.intent_likelihood import posteriors
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.queries import TruthRanks, chances, choice_sizes, draw_choices
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
from foltr_audit.utils.arrays import Floats, Ints, Weights

_COUNT = "count"

_NOBODY = (
    "no client sends in two recorded rounds one after the other, together with another client; expected "
    "--target training, or --repeats 2 or more"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkEvidence(Evidence):
    """L messages whose client's message of the next recorded round attacks had to find.

    Attributes:
        choices: messages to choose from for each, its client's next one included, int64 (L,).
        asked: how many choices the protocol asks for.
        placed, baselines: how each attack ranked the truth, and `count`, the counts in clear alone, and
            `same-queries`, by name.
    """

    client: NDArray[np.str_] = no_rows(np.str_)
    choices: Ints = no_rows(np.int64)
    asked: int
    placed: dict[str, TruthRanks] = field(default_factory=dict)
    baselines: dict[str, TruthRanks] = field(default_factory=dict)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """How often a client's next message is named, by simple ways first; intervals are over clients.

        `accuracy` is the share of messages whose client's next one is named, ties broken at random, `mrr` the
        mean reciprocal rank of it, `probability` what it is given on average; `chance` and `chance_mrr` are
        those of guessing. `choices` are the messages to choose from, fewer than the `choices_asked` where a
        round has no more. `count` names by the nearest count in clear, `same-queries` by most queries in
        common.
        """
        if not self.client.size:
            return
        resamples = QueryBootstrap(self.client, streams)
        facts = {
            **choice_sizes(self.choices, self.asked),
            "clients": int(resamples.names.size),
            **chances(self.choices),
        }
        for label, placed in (*self.baselines.items(), *self.placed.items()):
            metrics = {
                name: (resamples.mean if name == "rank" else resamples.share)(values)
                for name, values in placed.metrics().items()
            }
            simple = label in self.baselines
            yield TaskScore(
                method=label, baseline=simple, facts=facts, metrics=metrics, priors=1.0 / self.choices
            )


def counts_are_alike(scores: Iterable[TaskScore]) -> bool:
    """Whether the counts in clear tell no two messages apart: the baseline by counts only guesses."""
    return all(
        math.isclose(score.metrics[name].value, score.facts["chance"])
        for score in scores
        if score.method == _COUNT
        for name in ("accuracy", "probability")  # the accuracy of different counts may be that by accident
    )


class _RoundMessages(NamedTuple):
    """One round's M messages: who sent them, counts in clear, (M,), what each asked (part, number).

    `traits` has each attack's description of them, (M, F), by label.
    """

    clients: Ints
    counts: Weights
    queries: list[set[tuple[int, int]]]
    traits: Mapping[str, Floats]


class LinkTask(MessageTask[LinkEvidence]):
    """Which message of the next round comes from the same client, among those of other clients.

    Decoys are drawn from the streams; a round with fewer messages offers all of them.
    """

    name: ClassVar[str] = "client"
    asks_of: ClassVar[type[Attack]] = LinkAttack
    shuffled: ClassVar[bool] = True

    def __init__(self, attacks: Sequence[Attack], setting: JudgeSetting) -> None:
        super().__init__(attacks, setting)
        self._before: _RoundMessages | None = None

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """Traits of each message, (n, F)."""
        return answer_of(attack, answer, (len(view), None), "traits, a row for each message")

    def judged(self, answers: Mapping[str, Floats]) -> LinkEvidence | None:
        """Evidence on the messages of the last round whose clients send in this one again."""
        record = self.record
        queries: list[set[tuple[int, int]]] = [set() for _ in range(record.n_messages)]
        for slot, part, query in zip(record.slot, record.part, record.query, strict=True):
            queries[int(slot)].add((int(part), int(query)))
        before, now = self._before, _RoundMessages(self.truth.clients, record.counts, queries, answers)
        self._before = now
        if before is None:
            return None
        asked = self.setting.protocol.choices
        offer = offered(before.clients, now.clients, asked, self.setting.streams, record.round)
        if offer is None:
            return None
        likely = {
            attack.label: _chances(attack, before, now, offer)
            for attack in self.session.attacks
            if attack.label not in self.session.refused and isinstance(attack, LinkAttack)
        }
        simple = dict(_baselines(before, now, offer, "query" not in self.observer.hidden))
        return LinkEvidence(
            client=before.clients[offer.message].astype(np.str_),
            choices=np.full(offer.message.size, offer.choices.shape[1]),
            asked=asked,
            placed={label: TruthRanks.of(given, offer.right) for label, given in likely.items()},
            baselines={name: TruthRanks.of(given, offer.right) for name, given in simple.items()},
        )

    def evidence(self) -> LinkEvidence:
        """Evidence on all pairs of rounds, one after the other; without any, every attack is refused."""
        if self.pieces:
            return super().evidence()
        refused = {attack.label: _NOBODY for attack in self.session.attacks} | self.session.refused
        return LinkEvidence(asked=self.setting.protocol.choices, refused=refused)


class LinkChoices(NamedTuple):
    """Messages (L,) of a round, choices (L, m) in the next one, and which of them is right, (L,)."""

    message: Ints
    choices: Ints
    right: Ints


def offered(before: Ints, now: Ints, choices: int, streams: Streams, round_: int) -> LinkChoices | None:
    """The messages of clients (M,) who send again among clients (N,); None where there is no choice.

    The others are drawn without replacement, for each client from a stream of its own, so that the order of
    messages has no effect.
    """
    order = np.argsort(now, kind="stable")
    message = np.flatnonzero(np.isin(before, now))
    message = message[np.argsort(before[message], kind="stable")]
    if min(choices, now.size) < 2 or not message.size:
        return None
    own = np.searchsorted(now[order], before[message])
    # The name of a stream holds client and round, not the row, so that a shuffle changes no decoys.
    names = (f"link-decoys/{round_}/{client}" for client in before[message])
    offer, right = draw_choices(own, now.size, choices, names, streams)
    return LinkChoices(message, order[offer], right)


def _chances(attack: LinkAttack, before: _RoundMessages, now: _RoundMessages, offer: LinkChoices) -> Floats:
    """An attack's probabilities of the choices, (L, m)."""
    first, second = before.traits[attack.label][offer.message], now.traits[attack.label]
    with np.errstate(all="ignore"):
        likeness = attack.likeness(first, second, offer.choices)
    likeness = array_of(f"attack {attack.name}: likeness", likeness, offer.choices.shape)
    refuse_values(attack, np.all(likeness < np.inf), f"how like each pair is, shape {likeness.shape}")
    return posteriors(likeness)


def _baselines(
    before: _RoundMessages, now: _RoundMessages, offer: LinkChoices, knows_queries: bool
) -> Iterator[tuple[str, Floats]]:
    """Probabilities (L, m) by the nearest count in clear, and by how many queries messages have in common."""
    counts = before.counts[offer.message]
    yield _COUNT, posteriors(-np.abs(now.counts[offer.choices] - counts[:, np.newaxis]).astype(np.float64))
    if not knows_queries:
        return
    common = [
        [len(before.queries[message] & now.queries[choice]) for choice in choices]
        for message, choices in zip(offer.message.tolist(), offer.choices.tolist(), strict=True)
    ]
    yield "same-queries", posteriors(np.array(common, dtype=np.float64))
