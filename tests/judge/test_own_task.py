"""Tasks refuse answers of another form; one of another package stands in this file, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from rich.console import Console

from foltr_audit.core.plugins import Attack, Inference, IntentAttack, LinkAttack, View
from foltr_audit.core.plugins.registry import make, names
from foltr_audit.core.records import Collection
from foltr_audit.core.results import Estimate
from foltr_audit.errors import PluginError
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import TaskEvidence, judge, not_for_clicks, task_of
from foltr_audit.judge.task import Evidence, MessageTask, TaskScore, answer_of, task_record
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.utils.arrays import Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.played_rounds import rounds_to_judge
from tests.fixtures.plugin_examples import example
from tests.fixtures.result_rows import attacked_by, plain, report_on
from tests.fixtures.there import there
from tests.judge.test_clicks import recording_of


@dataclass(frozen=True, kw_only=True, eq=False)
class VolumeEvidence(Evidence):
    """How many documents were clicked in each of M messages, and what attacks estimated."""

    client: Ints
    clicks: Floats
    estimates: dict[str, Floats] = field(default_factory=dict)

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """The mean absolute error of each attack."""
        resamples = QueryBootstrap(self.client.astype(np.str_), streams)
        for label, estimates in self.estimates.items():
            error = resamples.mean(np.abs(estimates - self.clicks))
            yield TaskScore(method=label, facts={"messages": self.clicks.size}, metrics={"off": error})


class VolumeTask(MessageTask[VolumeEvidence]):
    """How many documents were clicked in a message."""

    name: ClassVar[str] = "volume"

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """A number for each message, (n,)."""
        return answer_of(attack, answer, (len(view),), "a number for each message")

    def judged(self, answers: Mapping[str, Floats]) -> VolumeEvidence:
        """The numbers next to the truth."""
        clicks = np.zeros(self.record.n_messages)
        np.add.at(clicks, self.record.slot, self.truth.clicks.sum(axis=1))
        return VolumeEvidence(client=self.truth.clients, clicks=clicks, estimates=dict(answers))


class Shown(Attack):
    """Takes a share of the shown documents for clicked."""

    name: ClassVar[str] = "toy-shown"
    asks: ClassVar[str | type] = VolumeTask
    share: float = 0.5
    width: int = 1

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        said = self.share * view.is_document.sum(axis=(1, 2))
        wide = np.tile(said[:, np.newaxis], (1, self.width))
        return Inference.about(view, wide[:, 0] if self.width == 1 else wide)


class Blind(Shown):
    """Needs what nobody knows here."""

    name: ClassVar[str] = "toy-blind-volume"
    needs: ClassVar[frozenset[str]] = frozenset({"sigma"})


def found_by(recording: MemoryRoundStore, data: Collection, *attacks: Attack) -> TaskEvidence:
    return judge(recording, Observer(recording.header, data), attacks, Streams(1))


def volume(found: TaskEvidence) -> VolumeEvidence:
    evidence = found.found["volume"]
    assert isinstance(evidence, VolumeEvidence)
    return evidence


def test_a_task_of_another_package_is_judged_beside_others(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of())
    found = found_by(recording, collection, make(Attack, "olsr"), Shown(), Shown(share=0.0), Blind())
    assert list(found.found) == ["clicks", "volume"]
    evidence = volume(found)
    counted = [
        truth.clicks[record.slot == slot].sum()
        for record, truth in zip(recording.records, recording.truth, strict=True)
        for slot in range(record.n_messages)
    ]
    assert evidence.clicks.tolist() == counted
    assert found.refused == {"toy-blind-volume": "the observer does not know: sigma"}
    alone = found_by(recording, collection, make(Attack, "olsr"))
    one, other = (there(each.clicks).guessed["olsr"].scores for each in (alone, found))
    assert one.tobytes() == other.tobytes()


def test_its_numbers_stand_in_the_report(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of())
    found = found_by(recording, collection, make(Attack, "olsr"), Shown(), Shown(share=0.0))
    report = report_on(attacked_by(found, sees="message"))
    half, none = plain(report.tasks)
    assert [row["method"] for row in report.tasks] == ["toy-shown", "toy-shown:share=0"]
    assert (half["task"], half["view"], half["messages"]) == ("volume", "individual", 16)
    clicks = volume(found).clicks
    assert none["off"] == pytest.approx(clicks.mean())
    low, high = none["off_ci95"]
    assert low <= none["off"] <= high
    text = io.StringIO()
    report.show(Console(file=text, width=80))
    assert "volume: " in text.getvalue()
    assert "toy-shown" in text.getvalue()


def test_repetitions_are_pooled(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of())
    found = found_by(recording, collection, Shown(), Blind())
    pieces = [
        found_by(replace(recording, records=[record], truth=[truth]), collection, Shown(), Blind())
        for record, truth in zip(recording.records, recording.truth, strict=True)
    ]
    both = TaskEvidence.combined(pieces)
    assert volume(both).clicks.tolist() == volume(found).clicks.tolist()
    assert volume(both).estimates["toy-shown"].tobytes() == volume(found).estimates["toy-shown"].tobytes()
    assert both.refused == found.refused


def test_an_answer_of_another_shape_is_an_error(setup_of: SetupOf, collection: Collection) -> None:
    with pytest.raises(PluginError, match=r"toy-shown: .*shape \(8, 2\); expected a number .*shape \(8\)"):
        found_by(recording_of(setup_of(clients=8)), collection, Shown(width=2))


def test_an_attack_names_a_task() -> None:
    class Lost(Shown):
        """Asks for something that is no task."""

        name: ClassVar[str] = "toy-lost"
        asks: ClassVar[Any] = "click"

    assert not_for_clicks([Shown()]) == {"toy-shown": "guesses are of clicks, and it finds the volume"}
    with pytest.raises(PluginError, match=r"toy-lost: asks='click' .*did you mean 'clicks'"):
        task_of(Lost())


def test_an_attack_has_the_methods_of_its_task(setup_of: SetupOf, collection: Collection) -> None:
    class Plain(Shown):
        """Asks for intents without the methods of such an attack."""

        name: ClassVar[str] = "toy-plain"
        asks: ClassVar[Any] = "intent"

    with pytest.raises(PluginError, match="toy-plain: it asks intent; expected a subclass of IntentAttack"):
        found_by(recording_of(setup_of()), collection, Plain())


@pytest.mark.parametrize(
    "name", ["view", "eps_claimed", "seed", "population.clients", "messages", "off_ci95", "a\\b", "a\nb", ""]
)
def test_a_number_does_not_hide_another_column(name: str) -> None:
    score = TaskScore(method="toy-shown", facts={"messages": 1}, metrics={name: Estimate(0.5)})
    with pytest.raises(PluginError, match="task volume: toy-shown: metric ") as refused:
        task_record("volume", score)
    assert repr(name) in str(refused.value)
    if name != "messages":
        with pytest.raises(PluginError, match="task volume: toy-shown: fact "):
            task_record("volume", TaskScore(method="toy-shown", facts={name: 1}, metrics={}))


def test_a_metric_is_an_estimate() -> None:
    score: Any = TaskScore(method="toy-shown", facts={}, metrics={"off": 0.5})  # type: ignore[dict-item]
    with pytest.raises(PluginError, match="metric 'off' gave a float; expected an Estimate"):
        task_record("volume", score)


def test_a_task_of_another_package_has_a_name_of_its_own(setup_of: SetupOf, collection: Collection) -> None:
    class Bits(VolumeTask):
        """Has the name of what attacks on clicks are also scored with."""

        name: ClassVar[str] = "bits"

    class Named(Shown):
        """Asks it."""

        name: ClassVar[str] = "toy-bits"
        asks: ClassVar[str | type] = Bits

    with pytest.raises(PluginError, match="its task has the name 'bits' of another task"):
        found_by(recording_of(setup_of()), collection, Named())


def about(view: View, *shape: int) -> Inference:
    """The same number everywhere, as the answer of a shape."""
    return Inference.about(view, np.full(shape, 0.5))


class Even(Attack):
    """Finds all queries equally likely, of more lists than there are."""

    name: ClassVar[str] = "even"
    asks: ClassVar[str | type] = "query"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), view.shown.shape[1] + 1)


class EvenIntents(IntentAttack):
    """Knows one intent alone."""

    name: ClassVar[str] = "even-intents"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), 1)


class EvenCounts(Attack):
    """Counts half a click on each document, in sums of the first three alone."""

    name: ClassVar[str] = "even-counts"
    asks: ClassVar[str | type] = "counts"
    observers: ClassVar[frozenset[str]] = frozenset({"aggregate", "individual"})

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        counts = np.where(view.is_document, 0.5, 0.0)
        width = 3 if view.observer == "aggregate" else None
        return Inference(scores=counts[:, :, :width], guess=np.zeros(view.shown.shape, np.bool_))


class Alike(LinkAttack):
    """Finds all messages alike, and says so once of each."""

    name: ClassVar[str] = "alike"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return about(view, len(view), 2)

    def likeness(self, first: Floats, second: Floats, offered: Ints) -> Floats:
        return np.zeros(len(offered))


def refusals(attack: Attack) -> list[dict[str, str]]:
    """What judging an attack on each form of played rounds says of it."""
    return [
        judge(played.store, played.server, [attack], Streams(1), played.protocol).refused
        for played in rounds_to_judge(attack.reads, task_of(attack))
    ]


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        (Even(), r"an answer of shape \(3, 4\); expected a probability for each list, shape \(3, 3\)"),
        (EvenIntents(), r"of shape \(3, 1\); expected a log likelihood for each intent, shape \(3, 2\)"),
        (EvenCounts(), r"scores of shape \(3, 1, 3\); expected \(3, 1, 10\)"),
        (Alike(), r"likeness.* shape \(3,\)"),
    ],
    ids=str,
)
def test_an_answer_that_its_task_does_not_accept_is_refused(attack: Attack, why: str) -> None:
    with pytest.raises(PluginError, match=why):
        refusals(attack)


@pytest.mark.parametrize("name", names(Attack))
def test_registered_attacks_answer_some_rounds(name: str) -> None:
    attack = example(Attack, name)
    single = {"messages": 1} if isinstance(attack, IntentAttack) else {}  # several would need more rounds
    assert {} in refusals(attack.model_copy(update=single))
