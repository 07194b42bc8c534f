"""One walk over recorded rounds, which judges the attacks of a protocol with all their tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.population import ONE_GROUP, ClientGroups
from foltr_audit.core.results import AttackRecord
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import ONE_LIST_ATTACK, SEVERAL_LISTS_ATTACK, STAND_IN
from foltr_audit.errors import PluginError, UsageError, suggest_name
from foltr_audit.inference.shadow_messages import is_compressed
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.calibration import calibration, information_records
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.clicks import ClickTask
from foltr_audit.judge.counts import CountTask
from foltr_audit.judge.intents import IntentTask
from foltr_audit.judge.linkage import LinkTask, counts_are_alike
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.participants import ParticipantTask
from foltr_audit.judge.pieces import find_refusals, shuffled
from foltr_audit.judge.promises import RecordedPromises, any_click_ceiling, click_ceilings
from foltr_audit.judge.published_models import PublishedModels, SingledOut
from foltr_audit.judge.queries import QueryTask
from foltr_audit.judge.round_sums import RoundSums, SumObserver
from foltr_audit.judge.scoring import any_click_records, click_records, group_records
from foltr_audit.judge.task import AttackTask, Evidence, JudgeSetting, TaskScore, task_record
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import ObservedRounds, RoundStore
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Ints
from foltr_audit.utils.progress import NO_TICK, Tick


@dataclass(frozen=True, eq=False)
class HonestRounds:
    """The rounds of a store, in whose sums only the messages of honest clients count.

    The sum of a round minus what colluding clients sent is the sum over the others, with their noise alone.
    With all but one of a round's clients colluding it is one message.
    """

    source: RoundStore
    colluders: Ints

    @property
    def header(self) -> TraceHeader:
        return self.source.header

    def truths(self) -> Iterator[RoundTruth]:
        return self.source.truths()

    def rounds(self) -> Iterator[RoundRecord]:
        for record, truth in zip(self.source.rounds(), self.source.truths(), strict=True):
            honest = ~np.isin(truth.clients, self.colluders)
            yield replace(record, survivors=record.survivors & honest)


def without_colluders(store: RoundStore, colluders: int | None, streams: Streams) -> ObservedRounds:
    """The rounds of a store in whose sums some clients do not count; itself without any.

    They are drawn from all that send; more colluders keep those that fewer have.
    """
    if not colluders:
        return store
    if store.header.kind == "masked":
        raise UsageError(
            "--colluders: messages are masked, so that what colluders sent is not recorded; expected a chain "
            "without secure-aggregation, whose sums --view aggregate stands for"
        )
    if not store.has_truth:
        raise UsageError("--colluders: the trace holds no truth; expected one that says who sent a message")
    clients = np.unique(np.concatenate([truth.clients for truth in store.truths()]))
    if colluders >= clients.size:
        most = f"expected at most {clients.size - 1}"
        raise UsageError(f"--colluders: {colluders} of {clients.size} clients that send; {most}")
    draws = streams.clients("colluders", 0, clients.astype(np.int64)).uniform(1)[:, 0]
    return HonestRounds(store, clients[np.argsort(draws, kind="stable")[:colluders]])


TaskClass = type[AttackTask[Evidence]]

TASKS: dict[str, TaskClass] = {
    task.name: task for task in (ClickTask, QueryTask, IntentTask, LinkTask, CountTask, ParticipantTask)
}
"""The tasks that attacks name in `asks`, in the order of reports."""

OF_CLICKS = ("any click", "bits", "calibration", "clicks by place")
"""Further tasks that attacks on clicks are scored with."""


def task_of(attack: Attack) -> TaskClass:
    """The task of an attack: a name of `TASKS`, or a class of its own package."""
    asks = attack.asks
    if isinstance(asks, type) and issubclass(asks, AttackTask):
        return asks
    if not isinstance(asks, str) or asks not in TASKS:
        hint = suggest_name(str(asks), TASKS)
        raise PluginError(
            f"attack {attack.name}: asks={asks!r} is no subclass of AttackTask and no name; {hint}"
        )
    return TASKS[asks]


def not_for_clicks(attacks: Sequence[Attack]) -> dict[str, str]:
    return {
        attack.label: f"guesses are of clicks, and it finds the {task_of(attack).name}"
        for attack in attacks
        if task_of(attack) is not ClickTask
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskEvidence:
    """What attacks found about recorded rounds, by task, and what is proven where a header declares events.

    `not_here` says why an attack does not fit the view, by label; `singled_out` how often, in view `client`,
    a change of the global model is one client's update.
    """

    found: Mapping[str, Evidence] = field(default_factory=dict)
    not_here: dict[str, str] = field(default_factory=dict)
    view: str = "individual"
    promises: RecordedPromises | None = None
    singled_out: SingledOut | None = None

    @property
    def clicks(self) -> ClickEvidence | None:
        """What was found about clicks behind single messages; None in a view without these."""
        found = self.found.get(ClickTask.name)
        return found if isinstance(found, ClickEvidence) else None

    @property
    def refused(self) -> dict[str, str]:
        """Why an attack could not run, by label; attacks on clicks first."""
        first = {} if self.clicks is None else self.clicks.refused
        return first | self.not_here | find_refusals(self.found.values())

    def records(self, streams: Streams) -> Iterator[AttackRecord]:
        """How well every attack does its task; `streams` draw the resamples of intervals.

        Of clicks also by group, with the task `clicks`, and by place of the list in its message, with the
        task `clicks by place`.
        """
        if self.clicks is not None:
            evidence, resamples = self.clicks, QueryBootstrap(self.clicks.query, streams)
            promise = None if self.promises is None else self.promises.interaction
            yield from click_records(evidence, streams, click_ceilings(evidence, promise))
            yield from any_click_records(evidence, resamples, any_click_ceiling(evidence, promise))
            for label in evidence.guessed:
                if label in evidence.probabilities:
                    yield calibration(evidence, label, resamples)
            yield from information_records(evidence, resamples)
            yield from group_records(evidence, streams)
            for record in group_records(evidence.by_followers(), streams):
                yield record.model_copy(update={"task": "clicks by place"})
        for task, answers in self.found.items():
            scores = list(answers.scores(streams))
            for score in scores:
                yield task_record(task, score, self._promise(task, scores))

    def _promise(self, task: str, scores: Sequence[TaskScore]) -> ProvenPromise | None:
        if self.promises is None:
            return None
        if task == LinkTask.name:  # counts in clear tell clients apart, whatever else is proven
            return self.promises.client if counts_are_alike(scores) else None
        return {QueryTask.name: self.promises.message, IntentTask.name: self.promises.clicks}.get(task)

    @classmethod
    def combined(cls, pieces: Sequence[TaskEvidence]) -> TaskEvidence:
        by_task: dict[str, list[Evidence]] = {}
        tallies = [piece.singled_out for piece in pieces]
        for piece in pieces:
            for name, evidence in piece.found.items():
                by_task.setdefault(name, []).append(evidence)
        return cls(
            found={name: type(several[0]).combined(several) for name, several in by_task.items()},
            not_here={label: why for piece in pieces for label, why in piece.not_here.items()},
            view=pieces[0].view,
            promises=pieces[0].promises,
            singled_out=None if None in tallies else sum(filter(None, tallies), SingledOut()),
        )


def judge(
    recording: RoundStore,
    observer: Observer,
    attacks: Sequence[Attack],
    streams: Streams,
    protocol: AttackSpec | None = None,
    groups: ClientGroups = ONE_GROUP,
    tick: Tick = NO_TICK,
) -> TaskEvidence:
    """Run attacks on recorded rounds, and join the truth to their answers.

    The rounds are walked over once: tasks share the views of a round, which are made once.

    `streams` draw decoys, and are of attacks that draw; `tick` is called after every round.

    Raises:
        UsageError: the recording holds no truth or no message, or does not fit the view.
        PluginError: an answer that is none.
    """
    protocol = protocol or AttackSpec()
    store: ObservedRounds = recording
    if protocol.sums_of_rounds:  # a sum is of clients of all groups
        store, observer = seen_as_rounds(recording, observer, protocol, streams)
        groups = ONE_GROUP
    setting = JudgeSetting(observer, protocol, streams, groups)
    asked, not_here = _by_task(attacks, protocol)
    tasks = [task(asking, setting) for task, asking in asked.items()]
    if not recording.has_truth:
        raise UsageError(
            "trace: it holds no truth, so nothing can be scored; write guesses with --guesses FILE"
        )
    promises = None
    first = next(recording.rounds(), None) if protocol.sums_of_rounds else None
    for record, truth in zip(store.rounds(), store.truths(), strict=True):
        promises = promises or RecordedPromises.of(
            observer.header, first or record, recording.n_rounds, protocol
        )
        _judge_round(tasks, record, truth, streams)
        tick()
    return TaskEvidence(
        found={task.name: task.evidence() for task in tasks},
        not_here=not_here,
        view=protocol.view,
        promises=promises,
        singled_out=store.tally if isinstance(store, PublishedModels) else None,
    )


def seen_as_rounds(
    store: RoundStore, observer: Observer, protocol: AttackSpec, streams: Streams
) -> tuple[RoundSums, SumObserver]:
    """The rounds of a store as the observer of a protocol sees them who sees no single messages."""
    sums = RoundSums(without_colluders(store, protocol.colluders, streams))
    seen = SumObserver(sums.header, observer.collection, observer.hidden, observer.client_step)
    if protocol.view == "client":
        sums = PublishedModels(sums.source, replace(observer, header=sums.header))
    return sums, seen


def stand_ins(
    recording: RoundStore, observer: Observer, protocol: AttackSpec, streams: Streams
) -> tuple[str, ...]:
    """The default attack that runs where no decoder by likelihood reads the messages of fresh clients.

    That is, if these refuse the first view, or if its messages were compressed, which they do not model. A
    shadow run and its fit take seconds for each global model, so on training rounds it runs only if named.
    """
    pooled = protocol.sums and not protocol.sums_of_rounds
    if protocol.methods is not None or protocol.target != "fresh" or pooled:
        return ()
    store: ObservedRounds = recording
    if protocol.sums_of_rounds:
        store, observer = seen_as_rounds(recording, observer, protocol, streams)
    view = next((seen.view for record in store.rounds() for seen in observer.views(record)), None)
    stand_in = make(Attack, STAND_IN)
    if view is None or stand_in.why_not(view) is not None:
        return ()
    exact = (make(Attack, name) for name in (ONE_LIST_ATTACK, SEVERAL_LISTS_ATTACK))
    refused = all(attack.why_not(view) is not None for attack in exact)
    if refused or (observer.client_step is None and is_compressed(view)):
        return (stand_in.text,)
    return ()


def _by_task(
    attacks: Sequence[Attack], protocol: AttackSpec
) -> tuple[dict[TaskClass, list[Attack]], dict[str, str]]:
    """The attacks of each task, in the order of `TASKS`, and why some do not fit the view.

    In sums over clients who saw one list, clicks are counted, without baselines; in the sums of rounds, also
    the clicks on each list are found, and what lasts about each client.
    """
    asked: dict[TaskClass, list[Attack]] = {task: [] for task in TASKS.values()}
    not_here: dict[str, str] = {}
    for attack in attacks:
        task = task_of(attack)
        if task.name in OF_CLICKS or any(other.name == task.name for other in asked if other is not task):
            raise PluginError(
                f"attack {attack.name}: its task has the name {task.name!r} of another task; "
                "expected a name of its own"
            )
        reason = _why_not_seen(task, protocol)
        if reason is None:
            asked.setdefault(task, []).append(attack)
        elif not (attack.baseline and protocol.sums):
            not_here[attack.label] = reason
    wanted = {CountTask} if protocol.sums and not protocol.sums_of_rounds else set()  # for its baselines
    return {task: asking for task, asking in asked.items() if asking or task in wanted}, not_here


def _why_not_seen(task: TaskClass, protocol: AttackSpec) -> str | None:
    """Why the view of a protocol shows nothing that a task asks for, or None."""
    sums, rounds = protocol.sums, protocol.sums_of_rounds
    if task is ParticipantTask and not rounds:
        more = "" if sums else " --view aggregate"
        return f"it reads sums of training rounds; expected --target training{more}"
    if task is CountTask and not sums:
        return "it counts the clicks in sums of messages; expected --view aggregate or pooled"
    if not sums or task in (CountTask, ParticipantTask) or (task is ClickTask and rounds):
        return None
    rest = "sums over clients who saw the same list" if task is ClickTask else "sums"
    return f"it finds the {task.name} behind single messages, and these are {rest}"


def _judge_round(
    tasks: Sequence[AttackTask[Evidence]], record: RoundRecord, truth: RoundTruth, streams: Streams
) -> None:
    """Show a round to all tasks; those that see the same share its views."""
    together: dict[tuple[bool, frozenset[str]], list[AttackTask[Evidence]]] = {}
    for task in tasks:
        together.setdefault((task.shuffled, task.observer.hidden), []).append(task)
    other = shuffled(record, truth, streams) if any(turned for turned, _ in together) else (record, truth)
    for (turned, _), same in together.items():
        messages, its_truth = other if turned else (record, truth)
        looking = [task for task in same if task.begin(messages, its_truth)]
        for seen in looking[0].observer.views(messages) if looking else ():
            for task in looking:
                task.see(seen)
        for task in same:
            task.end()
