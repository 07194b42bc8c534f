"""The judge: no attack reaches the truth, what is left out is counted, and pieces add up."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Knowledge
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.stages import attack_fresh, judge_attacks, make_attacks, train
from foltr_audit.inference.replay import Replay, pair_coefficients
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.clicks import Revealed, infer_round, revealed
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import reordered, shuffled
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, RoundStore, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats
from tests.attacks.test_regressions import tells
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.judging import judge_clicks
from tests.fixtures.reference import dataset, observed_pairs
from tests.fixtures.rounds import with_lists, without_messages
from tests.fixtures.there import there
from tests.fixtures.tiny import FEATURES, Drawing, collection_of, cut, rearranged, view, with_updates
from tests.inference.test_pattern_decoder import answer
from tests.inference.test_replay import SETTINGS, Sent, learner, sent, wide

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


# --- rounds in another order of messages ----------------------------------------------------------


def test_the_order_is_another_one_in_every_round(setup_of: SetupOf) -> None:
    federation = Federation(setup_of(clients=40))
    orders = [
        shuffled(*federation.play(np.zeros(FEATURES), number).recorded(), Streams(4))[1].clients.tolist()
        for number in (0, 1)
    ]
    assert orders[0] != orders[1]


def test_every_message_keeps_what_is_its_own(setup_of: SetupOf) -> None:
    """Also what only recorders know: senders, sizes, what is in clear, buffers, candidates, unknown rows."""
    scenario = "intent-skew+quantity-skew:batches=1/3"
    setup = setup_of(clients=14, scenario=scenario, data=intent_collection(), embed_features=True)
    record, truth = Federation(setup).play(np.zeros(FEATURES), 0).recorded()
    lists, reals = np.arange(record.n_interactions), np.arange(14.0)
    sizes = 50 + lists % 3
    record = replace(
        record,
        senders=np.arange(14, dtype=np.uint64) + 100,
        sizes=np.arange(14) + 7,
        sent_at=reals + 0.5,
        clear={"loss": reals * 2.0},
        buffers=(np.arange(14)[:, np.newaxis],),
        candidates=np.repeat(lists, sizes)[:, np.newaxis] * np.ones(FEATURES),
        n_candidates=sizes,
    )
    truth = replace(truth, known=lists % 2 == 0)
    seen, told = shuffled(record, truth, Streams(4))
    order = told.clients
    assert sorted(order.tolist()) == list(range(14)) != order.tolist()
    came = np.concatenate([np.flatnonzero(record.slot == message) for message in order])
    for names, place in (
        (("messages", "counts", "senders", "sizes", "sent_at", "survivors"), order),
        (("step", "part", "query", "shown", "features", "n_candidates"), came),
    ):
        for name in names:
            assert np.array_equal(getattr(seen, name), getattr(record, name)[place]), name
    for name, place in (("updates", order), ("clicks", came), ("intents", came), ("known", came)):
        assert np.array_equal(getattr(told, name), getattr(truth, name)[place]), name
    assert order[seen.slot].tolist() == record.slot[came].tolist()
    assert (seen.clear["loss"].tolist(), seen.buffers[0][:, 0].tolist()) == (
        (order * 2.0).tolist(),
        order.tolist(),
    )
    assert np.array_equal(np.asarray(seen.candidates)[:, 0], np.repeat(came, sizes[came]))
    back, _ = reordered(seen, told, np.argsort(order))
    assert back.messages.tobytes() == record.messages.tobytes()


def with_features(seen: View, features: Floats) -> View:
    """The same lists with other feature rows (n, B, k, d)."""
    n, _, _, d = features.shape
    plain = seen.knowledge.having(pairs=None)  # no weights: candidates have other features
    model = np.ones((n, d))
    return replace(seen, features=features, parameters=model, messages=2 * model, knowledge=plain)


def alone(seen: View) -> Revealed:
    """What is told of documents that form no pairs: their columns decide."""
    nothing = np.zeros(seen.shown.shape, np.bool_)
    return revealed(seen, nothing, nothing)


def full(k: int, n: int = 1, B: int = 1) -> View:
    """Messages of B lists of k documents each."""
    seen = cut(view(n, B=B, k=k), B=B)
    return replace(seen, shown=np.tile(np.arange(k), (n, B, 1)))


# --- equations ------------------------------------------------------------------------------------


@settings(max_examples=80, derandomize=True)
@given(
    rows=arrays(np.float64, (2, 3, 4), elements=st.integers(-3, 3).map(float)),
    twin=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    nothing=st.integers(0, 5),
    stretch=arrays(np.float64, (2, 3, 1), elements=st.sampled_from([1e-9, 1.0, 1e6])),
)
def test_a_document_stands_for_itself_if_the_rank_falls_without_it(
    rows: Floats, twin: tuple[int, int], nothing: int, stretch: Floats
) -> None:
    """Small whole numbers, so that a rank is beyond doubt; the sizes of the columns do not matter."""
    flat = rows.reshape(6, 4)
    flat[twin[0]] = flat[twin[1]]
    flat[nothing] = 0.0
    found = alone(with_features(full(3, B=2), (rows * stretch)[np.newaxis]))
    rank = np.linalg.matrix_rank(flat)
    assert found.rank.tolist() == [[rank, rank]]
    assert found.unknowns.tolist() == [[6, 6]]
    falls = [np.linalg.matrix_rank(np.delete(flat, j, axis=0)) < rank for j in range(6)]
    assert found.told.reshape(-1).tolist() == falls
    assert not falls[nothing]


def test_nearly_equal_documents_are_told_apart_by_exact_messages_only() -> None:
    seen = full(4)
    features = seen.features.astype(np.float64)
    features[0, 0, 1] = features[0, 0, 0] * (1 + 1e-8 * np.random.default_rng(1).normal(size=FEATURES))
    clicks, observed = np.array([[[True, False, False, False]]]), np.ones((1, 1, 4), dtype=np.bool_)
    seen = replace(seen, features=features)
    told = {}
    for name in ("float32", "float64"):
        known = replace(seen, knowledge=seen.knowledge.having(number_format=name, normaliser="shown"))
        known = with_updates(known, Replay(known).updates(clicks))
        assert alone(known).told.all()
        told[name] = revealed(known, clicks, observed).told[0, 0].tolist()
    assert told["float32"] == [False, False, True, True]
    assert told["float64"] == [True] * 4


def test_padding_and_empty_messages() -> None:
    seen = view(6, B=3)
    found = alone(seen)
    assert not found.told[~seen.is_document].any()
    assert np.array_equal(found.unknowns[:, 0], seen.is_document.sum(axis=(1, 2)))
    assert np.all(found.rank == np.minimum(found.unknowns, 6))
    for empty in (cut(seen, B=0), rearranged(seen, np.arange(0))):
        nothing = alone(empty)
        for array in nothing:
            assert array.shape[:2] == empty.shown.shape[:2]
            assert array.size == 0


# --- clicks ---------------------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(
    clicks=arrays(np.bool_, (4, 6)),
    sizes=arrays(np.float64, (4, 6, 6), elements=st.sampled_from([0.0, 1e-9, 0.01, 0.2])),
    only=st.booleans(),
)
def test_coefficients_against_a_loop_over_pairs(clicks: Bools, sizes: Floats, only: bool) -> None:
    weights = sizes + sizes.transpose(0, 2, 1)
    observed = observed_documents(clicks, np.ones((4, 6), dtype=np.bool_), only_observed=only)
    expected = np.zeros((4, 6))
    for i in range(4):
        for winner, loser in observed_pairs(clicks[i].tolist(), only):
            expected[i, winner] += weights[i, winner, loser]
            expected[i, loser] -= weights[i, winner, loser]
    found = pair_coefficients(weights, clicks, observed)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    one = pair_coefficients(weights[0], clicks, observed)[0]
    np.testing.assert_allclose(one, expected[0], rtol=1e-12, atol=1e-15)


def test_without_pdgds_settings_columns_alone_decide() -> None:
    """Else no message tells of documents that cancel out, as where all are clicked."""
    seen = view(4)
    clicks = seen.is_document
    expected = alone(seen).told
    assert expected.any()
    assert not revealed(seen, clicks, clicks).told.any()
    for name in ("learning_rate", "pairs", "normaliser", "order"):
        blind = replace(seen, knowledge=seen.knowledge.without(frozenset({name})))
        assert np.array_equal(revealed(blind, clicks, clicks).told, expected)


# --- real messages --------------------------------------------------------------------------------


def read(real: Sent) -> tuple[Bools, Bools, Bools]:
    """Documents (n, k) that OLSR reads rightly, that messages tell, and that stand in lists without a tie."""
    seen, clicks = real.view, real.clicks[:, 0]
    here = seen.is_document[:, 0]
    mixed = clicks.any(axis=1) & (clicks != here).any(axis=1)
    return answer(OLSR(), seen).guess[:, 0] == clicks, tells(real), here & mixed[:, np.newaxis]


def crowded(queries: int) -> Collection:
    """Queries with twins, near twins, a document without features and a sum of two others."""
    data = wide(queries)
    rng = np.random.default_rng(9)
    parts = []
    for part in (data.train, data.vali, data.test):
        features = part.features.astype(np.float64)
        for first in part.offsets[:-1][part.lengths >= 8]:
            features[first + 1] = features[first]
            features[first + 2] = 0.0
            features[first + 3] = features[first + 4] * (1 + 1e-6 * rng.normal(size=features.shape[1]))
            features[first + 5] = features[first + 6] - features[first + 7]
        parts.append(dataset(features, part.labels, part.lengths.tolist()))
    return collection_of(*parts)


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=6"])
@pytest.mark.parametrize(("dtype", "message"), [("float32", "model"), ("float64", "update")])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_least_squares_is_right_on_what_is_identifiable(
    pairs: str, normaliser: str, dtype: str, message: str, ranker: str, setup_of: SetupOf
) -> None:
    """Without defense; also where documents are crowded, far apart or hardly differ."""
    known = total = 0
    for data in (wide(30), crowded(30), spread(30)):
        setup = setup_of(learner=learner(pairs, normaliser), dtype=dtype, message=message, data=data)
        right, identifiable, shown = read(sent(setup, ranker=ranker))
        assert right[identifiable].all()
        known += identifiable.sum()
        total += shown.sum()
    assert total > 1000
    assert 0.6 * total < known < 0.99 * total


def spread(queries: int) -> Collection:
    """Features of very different sizes: scores lie far apart, and many pairs hardly count."""
    data = wide(queries)
    sizes = 10.0 ** np.linspace(-2, 2, data.n_features)
    parts = [
        part.with_features(part.features * sizes.astype(np.float32))
        for part in (data.train, data.vali, data.test)
    ]
    return collection_of(*parts)


# --- messages that are no models ------------------------------------------------------------------


def of_kind(kind: str, B: int, metric: str | None = None, *, antithetic: bool = True) -> View:
    """Six messages of B lists each, with 1 to 10 documents."""
    seen = cut(view(6 * B), B=1)
    shape = (6, B, *seen.shown.shape[2:])
    return replace(
        seen,
        kind=kind,
        parameters=seen.parameters[:6],
        messages=np.zeros((6, 2 if kind == "es" else B * shape[2])),
        shown=seen.shown.reshape(shape),
        features=seen.features.reshape(*shape, -1),
        labels=None,
        candidates=None,
        clients=np.ones(6, dtype=np.int64),
        knowledge=seen.knowledge.having(metric=metric, antithetic=antithetic),
    )


def test_clicks_in_clear_tell_everything() -> None:
    seen = of_kind("clicks", 3)
    clicks = seen.is_document & (np.arange(10) % 2 == 0)
    facts = revealed(seen, clicks, seen.is_document)
    assert np.array_equal(facts.told, seen.is_document)
    assert np.array_equal(facts.rank, facts.unknowns)
    assert np.array_equal(facts.unknowns[:, 0], seen.is_document.sum(axis=(1, 2)))


@pytest.mark.parametrize("metric", ["maxrr", "dcg"])
@pytest.mark.parametrize(
    ("B", "antithetic", "alone", "rank"),
    [
        (1, True, [True], 1),
        (2, True, [True, True], 2),
        (3, True, [False, False, True], 2),
        (4, True, [False] * 4, 2),
        (1, False, [True], 1),
        (2, False, [False, False], 1),
    ],
)
def test_one_metric_tells_a_list(metric: str, B: int, antithetic: bool, alone: list[bool], rank: int) -> None:
    """MaxRR down to the first click, and that a list without one has none; means are not spoken of."""
    seen = of_kind("es", B, metric, antithetic=antithetic)
    here = seen.is_document
    clicks = here & (np.arange(10) >= 2) & (np.arange(6) > 1)[:, np.newaxis, np.newaxis]
    told, ranks, unknowns = revealed(seen, clicks, here)
    down = np.arange(10) <= 2 if metric == "maxrr" else np.ones(10, dtype=np.bool_)
    for i in range(6):
        for b in range(B):
            expected = here[i, b] & (down if clicks[i, b].any() else True) & alone[b]
            assert told[i, b].tolist() == expected.tolist()
    assert (ranks == rank).all()
    assert (unknowns[:, 0] == here.sum(axis=(1, 2))).all()


def test_no_field_of_what_an_attack_gets_is_one_of_the_truth() -> None:
    truth = {field.name for field in fields(RoundTruth)}
    how_many_not_who = {"clients"}
    assert not truth & {field.name for field in fields(View)} - how_many_not_who
    whether_not_which = {"intents"}  # whether grades under each are known
    assert not truth & {field.name for field in fields(Knowledge)} - whether_not_which
    assert all(isinstance(getattr(Knowledge(), name), bool) for name in whether_not_which)
    assert not truth & {field.name for field in fields(RoundRecord)}
