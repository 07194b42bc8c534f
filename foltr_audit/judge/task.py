"""What attacks are asked, how their answers are checked and joined with the truth, and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.plugins.answers import column_name, one_of
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.population import ONE_GROUP, ClientGroups
from foltr_audit.core.records.view import Inference
from foltr_audit.core.results import AttackRecord, Estimate
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.observer import Observer, RoundView
from foltr_audit.judge.pieces import join, join_pieces
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.blas_threads import one_thread


@dataclass(eq=False)
class AttackSession:
    """Attacks with different labels that answer views, and why some of them cannot, by label."""

    attacks: Sequence[Attack]
    streams: Streams
    refused: dict[str, str] = field(default_factory=dict)
    _kept: dict[str, list[Any]] = field(default_factory=dict)

    def answers(self, view: View, round_: int, place: str) -> Iterator[tuple[Attack, Inference]]:
        """The answer of each attack that can run on a view; the reasons of the others go to `refused`.

        Each attack draws from a random stream of its own at this place. BLAS is limited to one thread, so
        that answers do not depend on the number of threads.
        """
        with one_thread():
            for attack in self.attacks:
                reason = attack.why_not(view)
                if reason is not None:
                    self.refused[attack.label] = reason
                    continue
                try:
                    rng = self.streams.generator(f"attack/{attack.text}/{place}")
                    answer = checked_answer(attack, view, rng)
                except np.linalg.LinAlgError as error:  # of messages near the end of the range
                    why = f"its equations cannot be solved in round {round_}: {error}"
                    self.refused[attack.label] = why
                    continue
                yield attack, answer

    def refuse_all(self, reason: str) -> None:
        self.refused |= {attack.label: reason for attack in self.attacks}

    def answers_to(self, seen: RoundView, round_: int) -> Iterator[tuple[Attack, Inference]]:
        """As `answers`, to a view of a round."""
        return self.answers(seen.view, round_, f"{round_}/{seen.rows.start}")

    def keep(self, attack: Attack, said: Any) -> None:
        """Store what an attack says about the messages of one view: an array, or a record of arrays."""
        self._kept.setdefault(attack.label, []).append(said)

    def collect(self) -> dict[str, Any]:
        """Take what each attack said since the last call, joined, by label, without the refused ones."""
        kept, self._kept = self._kept, {}
        return {label: join(said, {}) for label, said in kept.items() if label not in self.refused}


def checked_answer(attack: Attack, view: View, rng: np.random.Generator) -> Inference:
    """An attack's answer, in which every shown document has a score."""
    with np.errstate(all="ignore"):  # an untrusted trace may hold numbers near the end of the range
        answer = one_of(f"attack {attack.name}: infer", attack.infer(view, rng), Inference)
    lists = view.shown.shape
    for name, shape in {"scores": lists, "guess": lists, "any_click": lists[:2]}.items():
        given = getattr(answer, name)
        if given is not None and given.shape != shape:
            raise PluginError(f"attack {attack.name}: {name} of shape {given.shape}; expected {shape}")
    if np.isnan(answer.scores[view.is_document]).any():
        raise PluginError(f"attack {attack.name}: it gave a shown document the score NaN; expected a number")
    return answer


class NothingToReadError(UsageError):
    """No round has anything that attacks could read: no message arrived, and no sum was opened."""


@dataclass(frozen=True, kw_only=True)
class TaskScore:
    """How well one attack, or a baseline, does a task.

    Attributes:
        method: label of the attack, or name of the baseline.
        baseline: whether it is there for comparison only; None for a task without baselines of its own.
        facts: what was judged, such as how many messages, by the name of their column.
        metrics: by the name of their column; names of other columns are refused.
        priors: how likely the best guess without the messages is right, for each secret that is named,
            float64 (L,); None where no secret is named.
    """

    method: str
    baseline: bool | None = None
    facts: Mapping[str, float]
    metrics: Mapping[str, Estimate]
    priors: Floats | None = None


def task_record(task: str, score: TaskScore, promise: ProvenPromise | None = None) -> AttackRecord:
    """The record of a score; `promise` is what is proven for the secret that is named."""
    for name in score.facts:
        column_name(f"task {task}: {score.method}: fact", name)
    for name, metric in score.metrics.items():
        who = f"task {task}: {score.method}: metric"
        column_name(who, name, score.facts)
        one_of(f"{who} {name!r}", metric, Estimate)
    ceiling = {}
    if promise is not None and promise.known and score.priors is not None:
        priors, often = np.unique(score.priors, return_counts=True)
        ceiling["accuracy"] = float(np.average(promise.curve.success(priors), weights=often))
    return AttackRecord(
        task=task,
        method=score.method,
        role=None if score.baseline is None else "guess" if score.baseline else "attack",
        counts=dict(score.facts),
        metrics=dict(score.metrics),
        ceiling=ceiling,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What attacks with one task answered, next to the truth; a task has a subclass of its own.

    Arrays have a row for everything that was judged; a dict holds such arrays, or records of them, by the
    label of an attack (see `foltr_audit.judge.pieces`); `refused` says why an attack could not run.
    """

    refused: dict[str, str] = field(default_factory=dict)

    @classmethod
    def combined(cls, pieces: Sequence[Self]) -> Self:
        """Evidence of several rounds or repetitions as one; an attack that any of them refused is refused."""
        return join_pieces(pieces)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """The score of each attack that was not refused; bootstraps draw from `streams`.

        None for evidence that reports show in tables of its own.
        """
        return iter(())


def no_rows(dtype: type[np.generic], *shape: int) -> Any:
    """A field for an array that has no row where nothing was judged."""
    return field(default_factory=lambda: np.empty((0, *shape), dtype=dtype))


Judged = TypeVar("Judged", bound=Evidence, covariant=True)


class JudgeSetting(NamedTuple):
    """What tasks of one recording have in common."""

    observer: Observer
    protocol: AttackSpec
    streams: Streams
    groups: ClientGroups = ONE_GROUP


class AttackTask(ABC, Generic[Judged]):
    """A question that attacks answer about recorded messages; an object judges one recording.

    `foltr_audit.judge.protocol.judge` walks over the recorded rounds once for all tasks: of each round,
    `begin`, then `see` for each of its views if they are wanted, then `end`; after the last, `evidence`.

    Attributes:
        name: what attacks ask, for example `query`.
        asks_of: the class that its attacks must have.
        shuffled: whether messages come in a random order, because they are in that of their clients.
        makes: knowledge that an attack need not have, since the task makes it.
        observer: who sees the messages.
        session: its attacks, and why some of them cannot run.
        record, truth: the round that is judged.
        pieces: the evidence so far.
    """

    name: ClassVar[str]
    asks_of: ClassVar[type[Attack]] = Attack
    shuffled: ClassVar[bool] = False
    makes: ClassVar[frozenset[str]] = frozenset()

    record: RoundRecord
    truth: RoundTruth

    def __init__(self, attacks: Sequence[Attack], setting: JudgeSetting) -> None:
        """Judge attacks of the class `asks_of`, which have different labels."""
        for attack in attacks:
            if not isinstance(attack, self.asks_of):
                expected = self.asks_of.__name__
                raise PluginError(
                    f"attack {attack.name}: it asks {self.name}; expected a subclass of {expected}"
                )
        self.setting, self.observer = setting, setting.observer
        if self.makes & self.observer.hidden:
            self.observer = replace(self.observer, hidden=self.observer.hidden - self.makes)
        self.session = AttackSession(attacks, setting.streams)
        self.pieces: list[Judged] = []

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        """A round begins; whether its views are wanted."""
        self.record, self.truth = record, truth
        return record.n_messages > 0

    @abstractmethod
    def see(self, seen: RoundView) -> None:
        """A view of some of the round's messages."""

    @abstractmethod
    def end(self) -> None:
        """All views of the round were seen."""

    def evidence(self) -> Judged:
        """Evidence on all rounds, of which one at least has a message."""
        if not self.pieces:
            raise NothingToReadError("trace: it holds no message yet")
        last = self.pieces[-1]  # an attack may be refused in a round without evidence
        self.pieces[-1] = replace(last, refused=self.session.refused | last.refused)
        return type(last).combined(self.pieces)


class MessageTask(AttackTask[Judged]):
    """A task whose answers have a row for each message: a subclass checks and judges them."""

    def see(self, seen: RoundView) -> None:
        """Have the attacks answer a view of some of the round's messages."""
        for attack, answer in self.session.answers_to(seen, self.record.round):
            self.session.keep(attack, self.checked(attack, seen.view, answer))

    def end(self) -> None:
        if self.record.n_messages:
            piece = self.judged(self.session.collect())
            if piece is not None:
                self.pieces.append(replace(piece, refused=self.session.refused | piece.refused))

    def ask(self, view: View, round_: int, place: str) -> None:
        """Keep each attack's checked answer to a view; random numbers are drawn for this place."""
        for attack, answer in self.session.answers(view, round_, place):
            self.session.keep(attack, self.checked(attack, view, answer))

    @abstractmethod
    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """What an attack answers, with a row for each message of the view; see `answer_of`.

        A `PluginError` names another shape, or values that are no answer.
        """

    @abstractmethod
    def judged(self, answers: Mapping[str, Floats]) -> Judged | None:
        """Evidence on the messages of this round; None if it has none.

        The answers of each attack that was not refused have a row for each message of `record`.
        """


def answer_of(attack: Attack, answer: Inference, shape: tuple[int | None, ...], what: str) -> Floats:
    """The `answer` of an attack, if it is an array of a shape; None stands for any size."""
    found = answer.answer
    fits = found is not None and len(found.shape) == len(shape)
    if found is None or not fits or any(b not in (None, a) for a, b in zip(found.shape, shape, strict=True)):
        given = "none" if found is None else f"an answer of shape {found.shape}"
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        raise PluginError(f"attack {attack.name}: it gave {given}; expected {what}, shape ({sizes})")
    return found


def refuse_values(attack: Attack, right: bool | np.bool_, what: str) -> None:
    if not right:
        raise PluginError(f"attack {attack.name}: it gave other numbers than expected: {what}")
