"""The judge: no attack reaches the truth, what is left out is counted, and pieces add up."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar
from unittest.mock import Mock

import numpy as np
import pytest

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Knowledge
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import attack_fresh, judge_attacks, make_attacks, train
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.clicks import infer_round
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import reordered, shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, RoundStore, record_rounds, trace_header
from foltr_audit.simulation.setup import Setup
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.judging import judge_clicks
from tests.fixtures.rounds import with_lists, without_messages
from tests.fixtures.there import there
from tests.fixtures.tiny import FEATURES, Drawing

ATTACKS = [make(Attack, "olsr"), make(Attack, "first-position"), make(Attack, "max-gain")]


def recording_of(setup: Setup, rounds: int = 2) -> MemoryRoundStore:
    """The rounds of an experiment, in memory."""
    memory = MemoryRoundStore(trace_header(setup, setup.spec.train.click_model, 8))
    parameters = np.linspace(-0.5, 0.5, FEATURES)
    for number in range(rounds):
        record, truth = Federation(setup).play(parameters, number).recorded()
        memory.write(record, truth)
        parameters = record.aggregate
    return memory


def judge(recording: RoundStore, data: Collection, attacks: list[Attack], streams: Streams) -> ClickEvidence:
    """What an observer that has the data finds."""
    return judge_clicks(recording, Observer(recording.header, data), attacks, streams)


def equal(a: ClickEvidence, b: ClickEvidence) -> bool:
    """Whether two pieces of evidence are the same."""
    return (
        a.query.tolist() == b.query.tolist()
        and all(
            np.array_equal(getattr(a, name), getattr(b, name))
            for name in ("message", "shown", "clicks", "observed", "told", "rank", "unknowns")
        )
        and list(a.guessed) == list(b.guessed)
        and all(
            a.guessed[name].scores.tobytes() == b.guessed[name].scores.tobytes()
            and np.array_equal(a.guessed[name].guess, b.guessed[name].guess)
            for name in a.guessed
        )
        and (a.steps, a.clipped) == (b.steps, b.clipped)
    )


# --- the truth is out of reach --------------------------------------------------------------------


def test_no_field_of_what_an_attack_gets_is_one_of_the_truth() -> None:
    truth = {field.name for field in fields(RoundTruth)}
    how_many_not_who = {"clients"}
    assert not truth & {field.name for field in fields(View)} - how_many_not_who
    whether_not_which = {"intents"}  # whether grades under each are known
    assert not truth & {field.name for field in fields(Knowledge)} - whether_not_which
    assert all(isinstance(getattr(Knowledge(), name), bool) for name in whether_not_which)
    assert not truth & {field.name for field in fields(RoundRecord)}


def test_answers_do_not_depend_on_the_truth(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of())
    honest = judge(recording, collection, ATTACKS, Streams(1))
    shifted = replace(recording, truth=[])
    for record, truth in zip(recording.records, recording.truth, strict=True):
        clicks = (record.shown >= 0) & ~truth.clicks
        shifted.truth.append(replace(truth, clicks=clicks | truth.clicks, updates=-truth.updates))
    other = judge(shifted, collection, ATTACKS, Streams(1))
    assert other.has_click.all()
    for label, guessed in honest.guessed.items():
        assert other.guessed[label].scores.tobytes() == guessed.scores.tobytes()
        assert np.array_equal(other.guessed[label].guess, guessed.guess)


# --- what is judged -------------------------------------------------------------------------------


def test_every_list_stands_in_the_evidence(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of(click_model="perfect", defense=("clip:norm=0.5",)))
    evidence = judge(recording, collection, ATTACKS, Streams(1))
    pairs = list(zip(recording.records, recording.truth, strict=True))
    assert np.array_equal(evidence.clicks, np.concatenate([truth.clicks for _, truth in pairs]))
    assert np.array_equal(evidence.shown, np.concatenate([record.shown for record, _ in pairs]))
    assert evidence.query.tolist() == [f"train{q}" for record, _ in pairs for q in record.query]
    assert evidence.message.tolist() == [slot for slot in range(16) for _ in range(4)]
    assert 0 < evidence.has_click.sum() < 64
    assert evidence.steps == 64
    assert evidence.clipped == sum(int(truth.clipped.sum()) for truth in recording.truth) > 0
    assert list(evidence.guessed) == ["olsr", "first-position", "max-gain"]


def test_answers_stand_beside_their_own_lists(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of(), rounds=1)
    evidence = judge(recording, collection, ATTACKS, Streams(1))
    record = recording.records[0]
    (seen,) = Observer(recording.header, collection).views(record)
    for attack in ATTACKS:
        said = attack.infer(seen.view, np.random.default_rng())
        rows = [said.scores[record.slot[i], record.step[i]] for i in range(record.n_interactions)]
        assert np.array_equal(evidence.guessed[attack.label].scores, rows)


def test_nothing_clicked_at_all(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of(), rounds=1)
    silent = replace(recording, truth=[replace(t, clicks=np.zeros_like(t.clicks)) for t in recording.truth])
    evidence = judge(silent, collection, ATTACKS, Streams(1))
    assert evidence.ties.all()
    for name in ("has_click", "observed", "identifiable"):
        assert not getattr(evidence, name).any(), name


@pytest.mark.parametrize("what", ["no messages", "no interactions"])
def test_a_round_with_nothing_to_judge(what: str, setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of())
    record, truth = with_lists(recording.records[1], slice(0)), recording.truth[1]
    truth = replace(truth, clicks=truth.clicks[:0], clipped=truth.clipped[:0])
    if what == "no messages":
        record = without_messages(record)
        truth = replace(truth, clients=truth.clients[:0], updates=truth.updates[:0])
    with_empty = replace(recording, records=[recording.records[0], record], truth=[recording.truth[0], truth])
    first = replace(recording, records=recording.records[:1], truth=recording.truth[:1])
    both = (judge(each, collection, ATTACKS, Streams(1)) for each in (with_empty, first))
    assert equal(*both)


def test_pieces_add_up(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of(defense=("clip:norm=0.5",)), rounds=3)
    at_once = judge(recording, collection, ATTACKS, Streams(1))
    pieces = [
        judge(replace(recording, records=[record], truth=[truth]), collection, ATTACKS, Streams(1))
        for record, truth in zip(recording.records, recording.truth, strict=True)
    ]
    assert equal(ClickEvidence.combined(pieces), at_once)
    assert equal(ClickEvidence.combined([at_once]), at_once)
    assert not equal(ClickEvidence.combined(pieces[::-1]), at_once)


def test_attacks_do_not_shift_each_others_draws(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of())
    alone = judge(recording, collection, [Drawing()], Streams(1))
    beside = judge(recording, collection, [*ATTACKS, Drawing()], Streams(1))
    mine = alone.guessed["toy-drawing"].scores
    assert mine.tobytes() == beside.guessed["toy-drawing"].scores.tobytes()
    other = judge(recording, collection, [Drawing()], Streams(2)).guessed["toy-drawing"].scores
    assert not np.isclose(mine, other).any()
    half = alone.query.size // 2
    assert not np.array_equal(mine[:5], mine[half : half + 5]), "rounds draw anew"


# --- refusals -------------------------------------------------------------------------------------


def test_without_truth_nothing_is_scored(setup_of: SetupOf, collection: Collection) -> None:
    recording = replace(recording_of(setup_of(), rounds=1), has_truth=False)
    with pytest.raises(UsageError, match=r"holds no truth, .*--guesses FILE"):
        judge(recording, collection, ATTACKS, Streams(1))
    seer = Observer(recording.header, collection)
    answers = infer_round(recording.records[0], seer, ATTACKS, Streams(1))
    assert answers.guessed["olsr"].guess.shape == (32, 10)


def test_an_empty_recording_is_refused(setup_of: SetupOf, collection: Collection) -> None:
    with pytest.raises(UsageError, match="holds no round in which a message arrived"):
        judge(recording_of(setup_of(), rounds=0), collection, ATTACKS, Streams(1))


class Needy(Drawing):
    """Cannot do without the noise law and a clip."""

    name: ClassVar[str] = "needy"
    needs: ClassVar[frozenset[str]] = frozenset({"noise", "clip"})


def test_an_attack_that_cannot_run_says_why(setup_of: SetupOf, collection: Collection) -> None:
    recording = recording_of(setup_of(), rounds=2)
    evidence = judge(recording, collection, [*ATTACKS, Needy()], Streams(1))
    assert evidence.refused == {"needy": "the observer does not know: clip"}
    assert "needy" not in evidence.guessed
    assert "olsr" in evidence.guessed


def test_where_no_attack_can_run_nothing_is_reported(setup_of: SetupOf, collection: Collection) -> None:
    recording, streams = recording_of(setup_of(learner="fpdgd:interactions=1"), rounds=1), Streams(1)
    protocol = AttackSpec(methods=("map", "olsr"), hide=("features",))
    with pytest.raises(UsageError, match=r"attack map: cannot run on this view: .* features; attack olsr: "):
        judge_attacks(recording, collection, protocol, streams)
    some = AttackSpec(methods=("map", "olsr"), hide=("noise", "order"))
    evidence = there(judge_attacks(recording, collection, some, streams).clicks)
    assert list(evidence.refused) == ["first-position", "position-prior", "relevance-prior", "map"]
    assert list(evidence.guessed)[-1] == "olsr"


# --- the way there --------------------------------------------------------------------------------


def test_baselines_stand_in_front_and_once() -> None:
    baselines = ["first-position", "position-prior", "relevance-prior"]
    assert [attack.label for attack in make_attacks(["olsr"])] == [*baselines, "olsr"]
    labels = [a.label for a in make_attacks(["first-position", "olsr", "olsr:tolerance=0", "olsr"])]
    assert labels == [*baselines, "olsr", "olsr:tolerance=0"]


def test_memory_and_folder_are_judged_alike(setup_of: SetupOf, collection: Collection, tmp_path: Any) -> None:
    setup = setup_of(rounds=3, dtype="float32")
    federation, start = Federation(setup), np.zeros(FEATURES)
    header = trace_header(setup, "informational", 8)

    def play(first: int, last: Any) -> Any:
        return federation.rounds(start if last is None else last, first)

    folders, silent = (None, tmp_path / "trace"), Mock()
    found = [
        record_rounds(play, header, each, collection, resume=False, keep=True, tick=silent)
        for each in folders
    ]
    memory, trace = (judge(recording, collection, ATTACKS, Streams(1)) for recording in found)
    assert equal(memory, trace)
    assert found[0].last_model().parameters.tobytes() == found[1].last_model().parameters.tobytes()
    assert found[0].metrics() == found[1].metrics()
    assert found[0].n_rounds == found[1].n_rounds == 3


def test_metrics_alone_are_kept_where_nobody_attacks(setup_of: SetupOf) -> None:
    kept, slim = (train(setup_of(rounds=4), keep=keep) for keep in (True, False))
    assert kept.rounds == slim.rounds
    assert kept.parameters.tobytes() == slim.parameters.tobytes()
    assert isinstance(kept.recording, MemoryRoundStore)
    assert len(list(kept.recording.rounds())) == 4
    assert isinstance(slim.recording, MemoryRoundStore)
    assert list(slim.recording.rounds()) == []
    assert len(slim.recording.records) == 1, "memory does not grow with the rounds"
    assert slim.ndcg == slim.rounds[-1]["offline_ndcg@10"]
    weights = [0.9995**t for t in range(4)]
    by_hand = sum(w * row["online_ndcg@10"] for w, row in zip(weights, slim.rounds, strict=True))
    assert slim.online_sum == pytest.approx(by_hand, rel=1e-13)


def test_fresh_clients_are_judged_per_click_model(setup_of: SetupOf, collection: Collection) -> None:
    attack = {"methods": ["olsr"], "click_models": ["perfect", "informational"], "repeats": 2}
    setup = setup_of(attack=attack, learner="fpdgd:pairs=all,normaliser=shown")
    protocol = there(setup.spec.attack)
    clients, model = FreshClients(setup, protocol), np.linspace(-0.3, 0.3, FEATURES)
    found = attack_fresh(setup, clients, model)
    assert list(found) == ["perfect", "informational"]
    for click_model, of_model in found.items():
        evidence = there(of_model.clicks)
        assert evidence.steps == 2 * clients.queries.size
        assert evidence.query.size == evidence.steps
        header = trace_header(setup, click_model, clients.queries.size, setup.learner.interactions)
        memory = MemoryRoundStore(header)
        for record, truth in (played.recorded() for played in clients.rounds(model, click_model)):
            memory.write(record, truth)
        again = there(judge_attacks(memory, collection, protocol, setup.streams).clicks)
        assert equal(evidence, again)


def test_least_squares_reads_an_undefended_message(setup_of: SetupOf, collection: Collection) -> None:
    """As many numbers as documents or more: the weights of a message without noise are those of PDGD."""
    setup = setup_of(rounds=1, clients=80, learner="fpdgd:interactions=1,pairs=all,normaliser=shown")
    recording = recording_of(setup, rounds=1)
    evidence = judge(recording, collection, [make(Attack, "olsr")], Streams(1))
    short = evidence.is_document.sum(axis=1) <= FEATURES
    mixed = evidence.clicks.sum(axis=1) < evidence.is_document.sum(axis=1)
    twins = np.array([collection.train.lengths[int(name[5:])] > 3 for name in evidence.query])
    solvable = short & mixed & ~twins
    assert solvable.sum() >= 5
    assert np.array_equal(evidence.guessed["olsr"].guess[solvable], evidence.clicks[solvable])


# --- rounds in another order of messages ----------------------------------------------------------


def test_every_message_keeps_what_is_its_own(setup_of: SetupOf) -> None:
    scenario = "intent-skew+quantity-skew:batches=1/3"
    setup = setup_of(clients=14, scenario=scenario, data=intent_collection(), embed_features=True)
    record, truth = Federation(setup).play(np.zeros(FEATURES), 0).recorded()
    seen, told = shuffled(record, truth, Streams(4))
    assert sorted(told.clients.tolist()) == list(range(14))
    assert told.clients.tolist() != truth.clients.tolist()
    for place, client in enumerate(told.clients):
        assert np.array_equal(seen.messages[place], record.messages[client])
        assert seen.counts[place] == record.counts[client]
        assert np.array_equal(told.updates[place], truth.updates[client])
        here, before = seen.slot == place, record.slot == client
        for name in ("step", "part", "query", "shown", "features"):
            assert np.array_equal(getattr(seen, name)[here], getattr(record, name)[before])
        for name in ("clicks", "intents"):
            assert np.array_equal(getattr(told, name)[here], getattr(truth, name)[before])
    back, _ = reordered(seen, told, np.argsort(told.clients))
    assert back.messages.tobytes() == record.messages.tobytes()


def test_the_order_is_another_one_in_every_round(setup_of: SetupOf) -> None:
    federation = Federation(setup_of(clients=40))
    orders = [
        shuffled(*federation.play(np.zeros(FEATURES), number).recorded(), Streams(4))[1].clients.tolist()
        for number in (0, 1)
    ]
    assert orders[0] != orders[1]


def test_what_only_recorders_know_goes_along(setup_of: SetupOf) -> None:
    """Senders, sizes, numbers in clear, buffers, candidates and unknown clicks stay with their message."""
    federation = Federation(setup_of(clients=9, embed_features=True))
    record, truth = federation.play(np.zeros(FEATURES), 0).recorded()
    M, lists = record.n_messages, np.arange(record.n_interactions)
    sizes, reals = 50 + lists % 3, np.arange(M, dtype=np.float64)
    record = replace(
        record,
        senders=np.arange(M, dtype=np.uint64) + 100,
        sizes=np.arange(M) + 7,
        sent_at=reals + 0.5,
        clear={"loss": reals * 2.0},
        buffers=(np.arange(M)[:, np.newaxis],),
        candidates=np.repeat(lists, sizes)[:, np.newaxis] * np.ones(FEATURES),
        n_candidates=sizes,
    )
    truth = replace(truth, clipped=np.empty(0, dtype=np.bool_), known=lists % 2 == 0)
    order = np.random.default_rng(1).permutation(M)
    seen, told = reordered(record, truth, order)
    came = np.concatenate([np.flatnonzero(record.slot == message) for message in order])
    candidates = np.asarray(seen.candidates)[:, 0]
    for found, expected in (
        (seen.senders, order + 100),
        (seen.sizes, order + 7),
        (seen.sent_at, order + 0.5),
        (seen.clear["loss"], order * 2.0),
        (seen.buffers[0][:, 0], order),
        (seen.n_candidates, sizes[came]),
        (candidates, np.repeat(came, sizes[came])),
        (told.known, came % 2 == 0),
    ):
        assert there(found).tolist() == expected.tolist()
    assert not told.knows_clips
