"""Records of rounds: in memory, or in a trace on disk; both are read the same way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from foltr_audit.core.plugins import MetricLearner
from foltr_audit.core.plugins.answers import facts_of
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import GlobalModel, RoundRecord, RoundTruth
from foltr_audit.core.settings.data import path_name
from foltr_audit.privacy.events import event_text
from foltr_audit.recorder.trace_format import WORDS
from foltr_audit.simulation.federation import RoundResult
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Fact, Trace, TraceDataset, TraceHeader, TraceWriter
from foltr_audit.utils.progress import Tick

# A killed run loses at most one part: about this many bytes of messages, and at most this many interactions.
_PART_BYTES = 4_000_000
_PART_INTERACTIONS = 1_000_000
_FEW_PARAMETERS = 200  # larger rankers take proportionally longer


class ObservedRounds(Protocol):
    @property
    def header(self) -> TraceHeader:
        """What an observer may know before the first message."""

    def rounds(self) -> Iterator[RoundRecord]: ...

    def truths(self) -> Iterator[RoundTruth]:
        """The truth of each round, in the same order."""


class RoundStore(ObservedRounds, Protocol):
    @property
    def has_truth(self) -> bool: ...

    @property
    def n_rounds(self) -> int: ...

    def metrics(self) -> list[dict[str, float]]:
        """The utility of each round, with its number under `round`."""

    def last_model(self) -> GlobalModel: ...


@dataclass
class MemoryRoundStore:
    """Rounds of experiments that write no folder; without `keep` only metrics and the last record."""

    header: TraceHeader
    keep: bool = True
    has_truth: bool = True
    records: list[RoundRecord] = field(default_factory=list)
    truth: list[RoundTruth] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)

    def write(self, record: RoundRecord, truth: RoundTruth) -> None:
        self.rows.append({"round": record.round, **truth.metrics})
        if not self.keep:
            self.records.clear()
        self.records.append(record)
        if self.keep:
            self.truth.append(truth)

    @property
    def n_rounds(self) -> int:
        return len(self.rows)

    def rounds(self) -> Iterator[RoundRecord]:
        return iter(self.records if self.keep else [])

    def truths(self) -> Iterator[RoundTruth]:
        return iter(self.truth)

    def metrics(self) -> list[dict[str, float]]:
        return self.rows

    def last_model(self) -> GlobalModel:
        return self.records[-1].after


Play = Callable[[int, GlobalModel | None], Iterator[RoundResult]]
"""Plays rounds from a number on, given the last recorded global model, or None at the beginning."""


def record_rounds(
    play: Play,
    header: TraceHeader,
    folder: Path | None,
    collection: Collection,
    *,
    resume: bool,
    keep: bool,
    tick: Tick,
    every: int = 1,
) -> RoundStore:
    """Play rounds and record them in memory, or in a folder, which `resume` continues.

    Messages of rounds 0, `every`, 2 `every`, ... are recorded; with 0 those of none.
    """
    if folder is None:
        memory = MemoryRoundStore(header, keep=keep)
        for played in play(0, None):
            memory.write(*played.recorded(messages=keep and _is_due(played, every)))
            tick(played.metrics)
        return memory
    with TraceWriter(folder, header, resume=resume) as writer:
        first = writer.next_round
        last = Trace.open(folder).last_model() if first else None
        tick.skip(first)

        def write(record: RoundRecord, truth: RoundTruth) -> None:
            places = record.part, record.query, record.shown
            query, shown = collection.in_file(Collection.PARTS, *places)
            writer.write(replace(record, query=query, shown=shown), truth)

        with BackgroundWriter(write, header.rounds_per_part) as behind:
            for played in play(first, last):
                behind.write(played, messages=_is_due(played, every))
                tick(played.metrics)
    return Trace.open(folder).on(collection)


class BackgroundWriter:
    """Writes records of rounds to a trace in the background, in order, while the next rounds are played.

    As a context manager it waits for all rounds at the end. After an exception waiting rounds are dropped:
    as without another thread, whole parts stay.
    """

    def __init__(self, take: Callable[[RoundRecord, RoundTruth], None], room: int) -> None:
        """`take` writes a round; at most `room` rounds wait or are being written."""
        self.take = take
        self.room = room
        self._pool = ThreadPoolExecutor(1)  # one thread, so that rounds keep their order
        self._written: deque[Future[None]] = deque()
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After Ctrl-C too: nobody works on the trace once this has returned.
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for written in self._written:
                written.result()

    def write(self, played: RoundResult, *, messages: bool) -> None:
        """Queue one round, with its messages or without.

        Raises:
            FoltrAuditError: an earlier round could not be written.
        """
        while len(self._written) >= self.room:  # a full queue makes the player wait, which bounds memory
            self._written.popleft().result()
        self._written.append(self._pool.submit(self._write, played, messages))

    def _write(self, played: RoundResult, messages: bool) -> None:
        if self._failed:
            return  # nothing may follow a gap
        try:
            self.take(*played.recorded(messages=messages))
        except BaseException:
            self._failed = True
            raise


def _is_due(played: RoundResult, every: int) -> bool:
    return every > 0 and played.context.round % every == 0


def trace_header(
    setup: Setup,
    click_model: str | None,
    messages: int,
    interactions: int | None = None,
    lists: str | None = None,
) -> TraceHeader:
    """The header for rounds of `messages` messages.

    No click model is named where users have several. With `interactions` it is for attacked fresh clients
    with that many interactions per message and `deterministic` (None) or `sampled` lists; without, for
    training.
    """
    spec, collection, learner = setup.spec, setup.collection, setup.learner
    training = interactions is None
    behind = setup.clients.interactions if interactions is None else interactions
    knowledge: dict[str, Fact] = {
        "learner": learner.label,
        **facts_of(learner),
        "lists": learner.lists if training else lists or "deterministic",
        "defense": list(spec.defense),
        "events": [event_text(event) for event in setup.privacy.events()],
        "honest_messages": setup.privacy.members().honest(),
        "eps_claimed": setup.privacy.claim(),
        **_format(setup, behind),
    }
    if not training or setup.clients.alike_in_number:
        knowledge["interactions"] = behind
    if click_model is not None:
        knowledge["click_model"] = click_model
    if setup.clients.intents > 1:
        knowledge["intents"] = setup.clients.intents
    if collection.n_intents > 1 and spec.data.balance is not False:
        knowledge["intents_numbered"] = [str(spec.seed), str(spec.repetition)]
    ball, noise = setup.chain.ball, setup.privacy.noise()
    if ball is not None:
        knowledge |= {"clip_norm": ball.norm, "clip_ord": ball.ord}
    known = {"noise": noise, "missing": spec.data.missing}
    knowledge |= {name: text for name, text in known.items() if text is not None}
    if collection.document_order != "content":
        knowledge["document_order"] = collection.document_order
    if spec.data.dtype != "float32":
        knowledge["feature_dtype"] = spec.data.dtype
    if spec.data.intents is not None:
        knowledge["intents_from"] = path_name(spec.data.intents)
    if training and spec.trace.every != 1:
        knowledge["messages_every"] = spec.trace.every
    encoded = setup.chain.encoding is not None
    return TraceHeader(
        kind="masked" if encoded else setup.spec.message_kind,
        dtype=WORDS if encoded else spec.trace.dtype,
        parameters=setup.ranker.n_parameters,
        k=LIST_LENGTH,
        ranker=setup.ranker.text,
        dataset=TraceDataset(
            source=path_name(spec.data.source),
            fold=collection.fold,
            fingerprint=collection.fingerprint,
            normalised=collection.normalised,
            parts=collection.PARTS,
            rows=collection.row_order,
        ),
        has_truth=True,
        knowledge=knowledge,
        spec_hash=spec.hash,
        embeds_features=setup.embeds_features,
        rounds_per_part=_rounds_per_part(setup, messages, training=training),
    )


def _format(setup: Setup, interactions: int) -> dict[str, Fact]:
    """How messages are encoded, and how many numbers a message holds if it is no model."""
    encoding, learner = setup.chain.encoding, setup.learner
    if encoding is not None:
        return {
            "of": setup.spec.trace.message,
            "bits": encoding.bits,
            "fraction": encoding.fraction,
            "range": encoding.range,
        }
    if isinstance(learner, MetricLearner):
        return {"width": 2 if learner.antithetic else 1}
    return {"width": interactions * LIST_LENGTH} if learner.sends == "clicks" else {}


def _rounds_per_part(setup: Setup, messages: int, *, training: bool) -> int:
    """The rounds of one part of a trace, by their bytes and their number of interactions."""
    trace, interactions = setup.spec.trace, messages
    narrow = trace.dtype == "float32" and setup.chain.encoding is None
    width, every = (4 if narrow else 8), 1
    if training:
        every, interactions = trace.every, messages * setup.clients.interactions
    slowness = setup.learner.slowness * max(1, setup.ranker.n_parameters // _FEW_PARAMETERS)
    most = max(1, _PART_INTERACTIONS // (slowness * max(1, interactions)))
    per_message_round = max(1, messages * setup.ranker.n_parameters * width)
    return max(1, min(most, _PART_BYTES * every // per_message_round)) if every else most
