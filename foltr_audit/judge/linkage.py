"""Judges attacks that link messages: a client's message of the next round among those of other clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import LinkAttack
from foltr_audit.core.plugins.answers import array_of
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import PluginError
from foltr_audit.inference.intent_likelihood import posteriors
from foltr_audit.judge.attack_session import AttackSession, rounds_with_truth
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.queries import TruthRanks, draw_choices
from foltr_audit.judge.shuffle import shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_NOBODY = (
    "no client sends in two recorded rounds one after the other, together with another client; expected "
    "--target training, or --repeats 2 or more"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkEvidence:
    """L messages whose client's message of the next recorded round attacks had to find.

    Attributes:
        client: name of each message's client, (L,).
        choices: messages to choose from for each, its client's next one included, int64 (L,).
        asked: how many choices the protocol asks for.
        placed: how each attack ranked the truth, by label.
        baselines: the same for `count`, the counts in clear alone, and `same-queries`, by name.
        refused: why an attack could not run, by label.
    """

    client: NDArray[np.str_]
    choices: Ints
    asked: int
    placed: dict[str, TruthRanks] = field(default_factory=dict)
    baselines: dict[str, TruthRanks] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def judge_links(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[LinkAttack],
    choices: int,
    streams: Streams,
    tick: Tick = NO_TICK,
) -> LinkEvidence:
    """Have attacks find each client's next message among those of other clients.

    Args:
        recording: observed rounds with their truth; rounds without messages are skipped.
        observer: who sees them.
        attacks: attacks that link clients, with different labels.
        choices: how many messages there are to choose from; all of a round where it has fewer.
        streams: named random streams of the decoys and of attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth.
    """
    session = AttackSession(attacks, streams)
    pieces: list[LinkEvidence] = []
    before = None
    for recorded, known in rounds_with_truth(recording, tick):
        record, truth = shuffled(recorded, known, streams)
        if not record.n_messages:
            continue
        now = _read_round(record, truth, observer, session)
        if before is not None:
            offer = offered(before.clients, now.clients, choices, streams, now.round)
            if offer is not None:
                pieces.append(_judge_pair(before, now, offer, observer, session, choices))
        before = now
    if not pieces:
        none = {attack.label: session.refused.get(attack.label, _NOBODY) for attack in attacks}
        return LinkEvidence(
            client=np.empty(0, np.str_), choices=np.empty(0, np.int64), asked=choices, refused=none
        )
    return join_pieces(pieces)


class _RoundMessages(NamedTuple):
    """One round's M messages.

    Attributes:
        round: its number.
        clients: who sent them, int64 (M,).
        counts: interactions behind each, which travel in clear, int64 (M,).
        queries: which queries each asked, as part and number.
        traits: each attack's description of them, (M, F), by label.
    """

    round: int
    clients: Ints
    counts: Ints
    queries: list[set[tuple[int, int]]]
    traits: dict[str, Floats]


def _read_round(
    record: RoundRecord, truth: RoundTruth, observer: Observer, session: AttackSession[LinkAttack]
) -> _RoundMessages:
    pieces: dict[str, list[Floats]] = {}
    for seen in observer.views(record):
        place = f"{record.round}/{seen.rows.start}"
        for attack, answer in session.answers(seen.view, record.round, place):
            traits = answer.traits
            if traits is None or traits.ndim != 2 or len(traits) != len(seen.view):
                raise PluginError(f"attack {attack.name}: expected traits, a row for each message")
            pieces.setdefault(attack.label, []).append(traits)
    asked: list[set[tuple[int, int]]] = [set() for _ in range(record.n_messages)]
    for slot, part, query in zip(record.slot, record.part, record.query, strict=True):
        asked[int(slot)].add((int(part), int(query)))
    return _RoundMessages(
        round=record.round,
        clients=truth.clients,
        counts=record.counts,
        queries=asked,
        traits={label: np.concatenate(mine) for label, mine in pieces.items()},
    )


class LinkChoices(NamedTuple):
    """Messages whose client's next one is to be found, and the messages to choose from.

    Attributes:
        message: numbers of L messages of one round, int64 (L,).
        choices: messages of the next round, one of the same client among them, int64 (L, m).
        right: which of these it is, int64 (L,).
    """

    message: Ints
    choices: Ints
    right: Ints


def offered(before: Ints, now: Ints, choices: int, streams: Streams, round_: int) -> LinkChoices | None:
    """The messages of clients (M,) who send again among clients (N,); None where there is no choice.

    The others are drawn without replacement, for each client from a stream of its own, so that the order of
    messages has no effect.
    """
    order = np.argsort(now, kind="stable")
    m = min(choices, now.size)
    message = np.flatnonzero(np.isin(before, now))
    message = message[np.argsort(before[message], kind="stable")]
    if m < 2 or not message.size:
        return None
    own = np.searchsorted(now[order], before[message])
    offer = np.empty((message.size, m), dtype=np.int64)
    for row, place in enumerate(own.tolist()):
        # The name of the stream holds client and round, not the row, so that a shuffle changes no decoys.
        rng = streams.generator(f"link-decoys/{round_}/{before[message[row]]}")
        offer[row] = draw_choices(place, now.size, m, rng)
    right = (offer == own[:, np.newaxis]).argmax(axis=1)
    return LinkChoices(message, order[offer], right)


def _judge_pair(
    before: _RoundMessages,
    now: _RoundMessages,
    offer: LinkChoices,
    observer: Observer,
    session: AttackSession[LinkAttack],
    choices: int,
) -> LinkEvidence:
    """Evidence on the messages of two rounds, one after the other."""
    chances = {
        attack.label: _chances(attack, before, now, offer)
        for attack in session.attacks
        if attack.label not in session.refused
    }
    baselines = _baselines(before, now, offer, observer)
    return LinkEvidence(
        client=before.clients[offer.message].astype(np.str_),
        choices=np.full(offer.message.size, offer.choices.shape[1]),
        asked=choices,
        placed={label: TruthRanks.of(given, offer.right) for label, given in chances.items()},
        baselines={name: TruthRanks.of(given, offer.right) for name, given in baselines},
        refused=dict(session.refused),
    )


def _chances(attack: LinkAttack, before: _RoundMessages, now: _RoundMessages, offer: LinkChoices) -> Floats:
    """An attack's probabilities of the choices, (L, m)."""
    first, second = before.traits[attack.label][offer.message], now.traits[attack.label]
    with np.errstate(all="ignore"):
        likeness = attack.likeness(first, second, offer.choices)
    likeness = array_of(f"attack {attack.name}: likeness", likeness, offer.choices.shape)
    if not np.all(likeness < np.inf):
        raise PluginError(f"attack {attack.name}: expected how like each pair is, shape {likeness.shape}")
    return posteriors(likeness)


def _baselines(
    before: _RoundMessages, now: _RoundMessages, offer: LinkChoices, observer: Observer
) -> Iterator[tuple[str, Floats]]:
    """Probabilities (L, m) by the nearest count in clear, and by how many queries messages have in common."""
    counts = before.counts[offer.message]
    yield "count", posteriors(-np.abs(now.counts[offer.choices] - counts[:, np.newaxis]).astype(np.float64))
    if "query" in observer.hidden:
        return
    common = [
        [len(before.queries[message] & now.queries[choice]) for choice in choices]
        for message, choices in zip(offer.message.tolist(), offer.choices.tolist(), strict=True)
    ]
    yield "same-queries", posteriors(np.array(common, dtype=np.float64))
