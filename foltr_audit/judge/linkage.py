"""Judges attacks that ask who sent a message: the same client's message of the next round among others'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import LinkAttack
from foltr_audit.core.plugins.answers import array_of
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.click_evidence import answered, refused_in
from foltr_audit.judge.clicks import able, checked_answer
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.queries import TruthRanks
from foltr_audit.judge.shuffle import shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_NOBODY = (
    "no client sends in two recorded rounds one after the other, beside another client; expected --target "
    "training, or --repeats 2 at least"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkEvidence:
    """L messages whose client's message of the next recorded round was asked for.

    Attributes:
        client: name of each message's client, (L,).
        choices: messages that each had to be told from, its own next one included, int64 (L,).
        asked: how many were asked for.
        placed: where each attack put the truth, by label.
        baselines: the same of `count`, the counts in clear alone, and `same-queries`, by name.
        refused: why an attack could not run, by label.
    """

    client: NDArray[np.str_]
    choices: Ints
    asked: int
    placed: dict[str, TruthRanks] = field(default_factory=dict)
    baselines: dict[str, TruthRanks] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def combined_links(pieces: Sequence[LinkEvidence]) -> LinkEvidence:
    """Evidence of several rounds or repetitions as one; an attack that any of them refused is refused."""
    refused = refused_in(pieces)

    def joined(parts: Sequence[dict[str, TruthRanks]]) -> dict[str, TruthRanks]:
        names = answered(parts, refused)
        return {name: TruthRanks.joined([part[name] for part in parts]) for name in names}

    return LinkEvidence(
        client=np.concatenate([piece.client for piece in pieces]),
        choices=np.concatenate([piece.choices for piece in pieces]),
        asked=pieces[0].asked,
        placed=joined([piece.placed for piece in pieces]),
        baselines=joined([piece.baselines for piece in pieces]),
        refused=refused,
    )


def judge_links(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[LinkAttack],
    choices: int,
    streams: Streams,
    tick: Tick = NO_TICK,
) -> LinkEvidence:
    """Have attacks tell each client's next message from those of other clients.

    Args:
        recording: observed rounds with their truth; rounds without messages are passed over.
        observer: who sees them.
        attacks: attacks that ask for a client, with different labels.
        choices: how many messages there are to choose from; all of a round where it has fewer.
        streams: named random streams of the decoys and of attacks that draw.
        tick: called after every round.

    Raises:
        UsageError: the recording holds no truth.
    """
    if not recording.has_truth:
        raise UsageError("trace: it holds no truth, so nothing can be scored")
    pieces: list[LinkEvidence] = []
    before, refused = None, dict[str, str]()
    for recorded, known in zip(recording.rounds(), recording.truths(), strict=True):
        record, truth = shuffled(recorded, known, streams)
        if record.n_messages:
            now = _heard(record, truth, observer, attacks, streams, refused)
            offer = (
                None if before is None else offered(before.clients, now.clients, choices, streams, now.round)
            )
            if before is not None and offer is not None:
                pieces.append(_judged(before, now, offer, observer, attacks, choices, refused))
            before = now
        tick()
    labels = [attack.label for attack in attacks]
    if not pieces:
        none = {label: refused.get(label, _NOBODY) for label in labels}
        return LinkEvidence(
            client=np.empty(0, np.str_), choices=np.empty(0, np.int64), asked=choices, refused=none
        )
    return combined_links(pieces)


class _RoundMessages(NamedTuple):
    """One round's M messages.

    Attributes:
        round: its number.
        clients: who sent them, int64 (M,).
        counts: interactions behind each, which travel in clear, int64 (M,).
        queries: which queries each asked.
        traits: what each attack says of them, (M, F), by label.
    """

    round: int
    clients: Ints
    counts: Ints
    queries: list[frozenset[tuple[int, int]]]
    traits: dict[str, Floats]


def _heard(
    record: RoundRecord,
    truth: RoundTruth,
    observer: Observer,
    attacks: Sequence[LinkAttack],
    streams: Streams,
    refused: dict[str, str],
) -> _RoundMessages:
    from threadpoolctl import threadpool_limits

    pieces: dict[str, list[Floats]] = {}
    with threadpool_limits(limits=1, user_api="blas"):
        for seen in observer.views(record):
            place = f"{record.round}/{seen.rows.start}"
            for attack, rng in able(attacks, seen.view, streams, place, refused):
                traits = checked_answer(attack, seen.view, rng).traits
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
        queries=[frozenset(queries) for queries in asked],
        traits={label: np.concatenate(mine) for label, mine in pieces.items() if label not in refused},
    )


class LinkChoices(NamedTuple):
    """Whose next messages are asked for, and what there is to choose from.

    Attributes:
        message: numbers of L messages of one round, int64 (L,).
        choices: messages of the next round, one of the same client among them, int64 (L, m).
        right: which of these it is, int64 (L,).
    """

    message: Ints
    choices: Ints
    right: Ints


def offered(before: Ints, now: Ints, choices: int, streams: Streams, round_: int) -> LinkChoices | None:
    """The messages of clients (M,) who send again among clients (N,); None where there is nothing to tell.

    The others are drawn without replacement, for each client from a stream of its own; the order of messages
    changes nothing.
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
        rng = streams.generator(f"link-decoys/{round_}/{before[message[row]]}")
        others = rng.permutation(now.size - 1)[: m - 1]
        offer[row] = np.sort(np.append(others + (others >= place), place))
    right = (offer == own[:, np.newaxis]).argmax(axis=1)
    return LinkChoices(message, order[offer], right)


def _judged(
    before: _RoundMessages,
    now: _RoundMessages,
    offer: LinkChoices,
    observer: Observer,
    attacks: Sequence[LinkAttack],
    choices: int,
    refused: dict[str, str],
) -> LinkEvidence:
    placed = {}
    for attack in attacks:
        if attack.label in before.traits and attack.label in now.traits:
            first, second = before.traits[attack.label][offer.message], now.traits[attack.label]
            placed[attack.label] = TruthRanks.of(_chances(attack, first, second, offer.choices), offer.right)
    return LinkEvidence(
        client=before.clients[offer.message].astype(np.str_),
        choices=np.full(offer.message.size, offer.choices.shape[1]),
        asked=choices,
        placed=placed,
        baselines={
            name: TruthRanks.of(said, offer.right) for name, said in _baselines(before, now, offer, observer)
        },
        refused=dict(refused),
    )


def _chances(attack: LinkAttack, first: Floats, second: Floats, choices: Ints) -> Floats:
    """An attack's probabilities of the choices, (L, m)."""
    with np.errstate(all="ignore"):
        likeness = attack.likeness(first, second, choices)
    likeness = array_of(f"attack {attack.name}: likeness", likeness, choices.shape)
    if not np.all(likeness < np.inf):
        raise PluginError(f"attack {attack.name}: expected how like each pair is, shape {choices.shape}")
    return softmax(likeness)


def softmax(likeness: Floats) -> Floats:
    """Probabilities (L, m) of log likelihood ratios of which one alone is right; a row of -inf is even."""
    top = likeness.max(axis=1, keepdims=True)
    known = np.isfinite(top)
    masses = np.where(known, np.exp(likeness - np.where(known, top, 0.0)), 1.0)
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _baselines(
    before: _RoundMessages, now: _RoundMessages, offer: LinkChoices, observer: Observer
) -> Iterator[tuple[str, Floats]]:
    """Probabilities (L, m) by the nearest count in clear, and by how many queries messages have in common."""
    counts = before.counts[offer.message]
    yield "count", softmax(-np.abs(now.counts[offer.choices] - counts[:, np.newaxis]).astype(np.float64))
    if "query" in observer.hidden:
        return
    common = [
        [len(before.queries[message] & now.queries[choice]) for choice in choices]
        for message, choices in zip(offer.message.tolist(), offer.choices.tolist(), strict=True)
    ]
    yield "same-queries", softmax(np.array(common, dtype=np.float64))
