"""Federated rounds: cohorts, message kinds, small experiments, and what must not change them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from foltr_audit.core.click_models import PerfectClickModel
from foltr_audit.core.plugins import WireMessages
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.population import PopulationSpec
from foltr_audit.errors import DataError, UsageError
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.stages import first_model, train
from foltr_audit.rng import Streams
from foltr_audit.simulation import training
from foltr_audit.simulation.cohorts import CohortSampler
from foltr_audit.simulation.federation import Federation, bytes_per_client
from foltr_audit.simulation.setup import Setup
from foltr_audit.simulation.training import weighted_mean
from foltr_audit.utils.arrays import Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.command import run
from tests.fixtures.tiny import FEATURES, ToyMessage, ToyStep, collection_of, dataset

Round = tuple[RoundRecord, RoundTruth]


def played(setup: Setup, start: Floats | None = None) -> list[Round]:
    start = np.zeros(FEATURES) if start is None else start
    return [played.recorded() for played in Federation(setup).rounds(start)]


def same_bytes(a: object, b: object, *, but: Iterable[str] = ()) -> None:
    """All arrays of two records are equal to the byte."""
    for name in {field.name for field in fields(a)} - set(but):  # type: ignore[arg-type]
        mine, other = getattr(a, name), getattr(b, name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == other.dtype, name
            assert mine.tobytes() == other.tobytes(), name
        else:
            assert mine == other, name


def same_rounds(some: list[Round], others: list[Round]) -> None:
    """Records and truths of two trainings are equal to the byte."""
    for mine, other in zip(some, others, strict=True):
        same_bytes(mine[0], other[0])
        same_bytes(mine[1], other[1])


# --- from round to round ---------------------------------------------------------------------------


def test_the_next_round_starts_where_the_last_one_ended(setup_of: SetupOf) -> None:
    rounds = played(setup_of(rounds=4))
    assert [record.round for record, _ in rounds] == [0, 1, 2, 3]
    for (before, _), (after, _) in pairwise(rounds):
        assert after.parameters.tobytes() == before.aggregate.tobytes()
        assert not np.array_equal(after.query, before.query)
    federation = Federation(setup_of(rounds=4))
    for record, truth in rounds:
        assert truth.metrics["offline_ndcg@10"] == federation.evaluation.ndcg(record.aggregate)
    half = federation.rounds(rounds[1][0].aggregate, first=2)
    same_rounds([one.recorded() for one in half], rounds[2:])


# --- what does not change a round -----------------------------------------------------------------


@pytest.mark.parametrize(
    "defense",
    [
        ("none",),
        ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3"),
        ("clip:norm=1.5", "laplace:eps=1.2,sensitivity=3", "trimmed-mean:share=0.2"),
        ("clip:norm=1.5", "secure-aggregation"),
    ],
)
@pytest.mark.parametrize("message", ["model", "update"])
def test_the_size_of_a_block_changes_no_byte(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch, defense: tuple[str, ...], message: str
) -> None:
    found = []
    for numbers in (1_000_000, 3 * FEATURES, 1):
        monkeypatch.setattr(training, "BLOCK_NUMBERS", numbers)
        sent = {"message": message, "dtype": "float32"}
        setup = setup_of(defense=defense, clients=7, learner="fpdgd:interactions=2", **sent)
        played = Federation(setup).play(np.linspace(-0.4, 0.5, FEATURES), 0)
        done = played.sent.interactions
        arrays = (played.sent.messages, played.sent.updates, played.aggregate, done.shown, done.clicks)
        found.append([array.tobytes() for array in arrays])
    assert found[0] == found[1] == found[2]


def test_messages_in_their_format_are_averaged_as_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = np.random.default_rng(3).normal(size=(9, 5)).astype(np.float32)
    survivors, counts = np.arange(9) != 4, np.arange(1, 10)
    monkeypatch.setattr("foltr_audit.simulation.training._CONVERTED", 18)  # two columns at once
    short, long = (
        weighted_mean(WireMessages(messages=given, survivors=survivors), counts)[0]
        for given in (messages, messages.astype(np.float64))
    )
    assert short.tobytes() == long.tobytes()


# --- cohorts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clients", "cohort", "separation"), [(20, 5, 4), (23, 5, 4), (40, 3, 7), (9, 3, 2)])
def test_nobody_takes_part_again_before_the_separation(
    clients: int, cohort: int, separation: int, setup_of: SetupOf
) -> None:
    federation = Federation(setup_of(clients=clients, cohort=cohort, separation=separation))
    drawn = [federation.setup.cohort(round_) for round_ in range(6 * separation)]
    assert all(each.size == cohort and (np.diff(each) > 0).all() for each in drawn)
    for first in range(len(drawn) - separation + 1):
        together = np.concatenate(drawn[first : first + separation])
        assert np.unique(together).size == together.size
    assert np.unique(np.concatenate(drawn)).size == clients, "everybody has a turn"
    fresh = Federation(setup_of(clients=clients, cohort=cohort, separation=separation))
    assert fresh.setup.cohort(5).tolist() == drawn[5].tolist(), "no earlier round is needed"
    other = Federation(setup_of(clients=clients, cohort=cohort, separation=separation, seed=2))
    assert [other.setup.cohort(round_).tolist() for round_ in range(4)] != [
        each.tolist() for each in drawn[:4]
    ]


def test_cohorts_are_drawn_uniformly_without_repeats(setup_of: SetupOf) -> None:
    from scipy.stats import chi2

    clients, cohort, rounds = 20, 5, 600
    federation = Federation(setup_of(clients=clients, cohort=cohort))
    drawn = np.array([federation.setup.cohort(round_) for round_ in range(rounds)])
    assert drawn.shape == (rounds, cohort)
    assert (np.diff(drawn, axis=1) > 0).all(), "rising, so none twice"
    assert drawn.min() >= 0
    assert drawn.max() < clients
    assert len({tuple(row) for row in drawn.tolist()}) > 550

    def statistic(ids: Ints) -> float:
        """Chi-square with clients - 1 degrees of freedom: draws of a round exclude each other."""
        p = cohort / clients
        counts = np.bincount(ids.ravel(), minlength=clients)
        spread = rounds * p * (1 - p) * clients / (clients - 1)
        return float(((counts - rounds * p) ** 2).sum() / spread)

    low, high = float(chi2.ppf(1e-4, clients - 1)), float(chi2.ppf(1 - 1e-4, clients - 1))
    assert low < statistic(drawn) < high
    skewed = np.where((drawn == 0) & (np.arange(rounds) % 3 == 0)[:, np.newaxis], 19, drawn)
    assert statistic(skewed) > high, "a client that is left out in a third of its rounds is noticed"
    # pairs of clients: a sample without replacement has no favourite company either
    together = sum(int(np.isin([3, 4], row).all()) for row in drawn)
    expected = rounds * cohort * (cohort - 1) / (clients * (clients - 1))
    assert abs(together - expected) < 4 * math.sqrt(expected)


# --- message kinds --------------------------------------------------------------------------------


@pytest.mark.parametrize("defense", [("none",), ("clip:norm=0.7", "gamma-laplace:eps=2,sensitivity=3")])
def test_models_and_updates_lead_to_the_same_ranker(defense: tuple[str, ...], setup_of: SetupOf) -> None:
    start = np.linspace(0.3, -0.4, FEATURES)
    models, updates = (
        played(setup_of(rounds=3, defense=defense, message=kind), start) for kind in ("model", "update")
    )
    for (model, _), (update, _) in zip(models, updates, strict=True):
        np.testing.assert_allclose(model.messages - model.parameters, update.messages, rtol=0, atol=1e-14)
        np.testing.assert_allclose(model.aggregate, update.aggregate, rtol=0, atol=1e-14)


@pytest.mark.parametrize("message", ["model", "update"])
def test_payloads_are_rounded_before_they_are_averaged(message: str, setup_of: SetupOf) -> None:
    exact, _ = played(setup_of(rounds=1, message=message))[0]
    short, _ = played(setup_of(rounds=1, message=message, dtype="float32"))[0]
    assert exact.messages.dtype == np.float64
    assert short.messages.dtype == np.float32
    assert np.array_equal(short.messages, exact.messages.astype(np.float32))
    received = short.messages.astype(np.float64)
    mean = np.array([math.fsum(column) for column in received.T]) / 8
    expected = mean if message == "model" else short.parameters + mean
    np.testing.assert_allclose(short.aggregate, expected, rtol=1e-14)
    np.testing.assert_allclose(short.aggregate, exact.aggregate, rtol=1e-6, atol=1e-7)


# --- small and strange experiments ----------------------------------------------------------------


def single_documents() -> Collection:
    """Two queries of one document each in every part."""
    train, vali, test = (dataset((1, 1), seed, "s") for seed in range(3))
    return collection_of(train, vali, test)


def test_one_document_a_query(setup_of: SetupOf) -> None:
    start = np.linspace(0.3, -0.4, FEATURES)
    setup = setup_of(data=single_documents(), rounds=2)
    for record, truth in played(setup, start):
        assert np.array_equal(record.shown[:, 0], np.zeros(record.n_interactions))
        assert (record.shown[:, 1:] == -1).all()
        assert (record.messages == record.parameters).all(), "no pairs, so nothing is learnt"
        assert not truth.updates.any()
        assert not truth.clicks[:, 1:].any()


def with_nothing_relevant(collection: Collection) -> Collection:
    """The same data with a single training query, which has no relevant document."""
    return replace(collection, train=collection.train.select([collection.train.n_queries - 1]))


@pytest.mark.parametrize("clips", [True, False])
def test_a_client_without_clicks_is_normal(clips: bool, setup_of: SetupOf, collection: Collection) -> None:
    start = np.full(FEATURES, 2.0)
    learner, data = f"fpdgd:clip_without_pairs={str(clips).lower()}", with_nothing_relevant(collection)
    clip = ("clip:norm=1",)
    setup = setup_of(rounds=1, click_model="perfect", learner=learner, defense=clip, data=data)
    record, truth = played(setup, start)[0]
    assert (record.counts == 4).all(), "interactions, not clicks"
    assert np.array_equal(record.slot, np.repeat(np.arange(8), 4))
    assert np.array_equal(record.step, np.tile(np.arange(4), 8))
    assert not truth.clicks.any()
    assert not truth.updates.any()
    assert truth.metrics["maxrr"] == 0.0
    assert truth.metrics["online_ndcg@10"] == 0.0
    if clips:
        np.testing.assert_allclose(record.messages, 2.0 / math.sqrt(4.0 * FEATURES), rtol=1e-15)
        assert truth.clipped[record.step == 0].all()
        assert truth.metrics["clipped"] >= 0.25
    else:
        assert np.array_equal(record.messages, np.tile(start, (8, 1)))
        assert not truth.clipped.any()
    assert np.isfinite(record.aggregate).all()


@pytest.mark.parametrize("message", ["model", "update"])
@pytest.mark.parametrize(("dtype", "factor"), [("float32", 1e60), ("float64", 1e308)])
def test_a_model_that_is_too_large_is_refused(
    message: str, dtype: str, factor: float, setup_of: SetupOf
) -> None:
    chain = (ToyMessage(factor=factor), ToyMessage(factor=1.0 if dtype == "float32" else 100.0, shift=1.0))
    setup = setup_of(rounds=1, message=message, dtype=dtype, chain=chain)
    said = rf"round 0: .* too large for {dtype}; .*normalise the features"
    with np.errstate(over="ignore"), pytest.raises(DataError, match=said):
        Federation(setup).play(np.ones(FEATURES), 0)


def test_local_steps_are_of_learners_that_send_models(setup_of: SetupOf) -> None:
    with pytest.raises(UsageError, match="learner pdgd: it sends clicks; expected one that sends models"):
        setup_of(learner="pdgd").rules(PerfectClickModel(), sampled=True)


def test_features_are_embedded_on_request(setup_of: SetupOf, collection: Collection) -> None:
    record, _ = played(setup_of(rounds=1, embed_features=True))[0]
    assert record.features is not None
    data = collection.train
    for row in range(record.n_interactions):
        for rank, document in enumerate(record.shown[row]):
            expected = data.features[data.offsets[record.query[row]] + document] if document >= 0 else 0.0
            assert np.array_equal(record.features[row, rank], np.broadcast_to(expected, FEATURES))


# --- evaluation and accounting --------------------------------------------------------------------


def test_clipped_share_counts_changed_steps(setup_of: SetupOf) -> None:
    wide = played(setup_of(rounds=1, defense=("clip:norm=1e6",)))[0][1]
    tight = played(setup_of(rounds=1, defense=("clip:norm=1e-6",)))[0][1]
    assert wide.metrics["clipped"] == 0.0
    assert tight.metrics["clipped"] == tight.clipped.mean() > 0.5
    assert played(setup_of(rounds=1, chain=(ToyStep(),)))[0][1].metrics["clipped"] == 0.0


def sampler(*, fixed: bool, clients: int = 24, size: int = 4, separation: int = 1) -> CohortSampler:
    return CohortSampler(
        clients=np.arange(clients), size=size, separation=separation, streams=Streams(1), fixed=fixed
    )


@pytest.mark.parametrize("separation", [1, 2, 6])
def test_fixed_cohorts_never_mix(separation: int) -> None:
    found = {
        tuple(sampler(fixed=True, separation=separation).cohort(round_).tolist()) for round_ in range(90)
    }
    assert len(found) == 6
    assert sorted(client for cohort in found for client in cohort) == list(range(24))
    assert all(list(cohort) == sorted(cohort) for cohort in found)
    mixed = {tuple(sampler(fixed=False).cohort(round_).tolist()) for round_ in range(90)}
    assert len(mixed) > 60


def test_a_separation_holds_with_fixed_cohorts() -> None:
    drawn = sampler(fixed=True, separation=3)
    rounds = [set(drawn.cohort(round_).tolist()) for round_ in range(60)]
    for first, second, third in zip(rounds, rounds[1:], rounds[2:], strict=False):
        assert not first & second
        assert not first & third


def test_every_fixed_cohort_is_equally_likely() -> None:
    drawn = sampler(fixed=True)
    often = Counter(tuple(drawn.cohort(round_).tolist()) for round_ in range(1200))
    assert chisquare(list(often.values())).pvalue > 1e-3
    skewed = np.array([*often.values()]) + np.array([60, -60, 0, 0, 0, 0])
    assert chisquare(skewed).pvalue < 1e-3


def test_clients_are_a_multiple_of_a_fixed_cohort() -> None:
    assert PopulationSpec(clients=24, cohort=4, cohorts="sampled") == PopulationSpec(clients=24, cohort=4)
    with pytest.raises(ValueError, match=r"cohorts=fixed: 25 clients in cohorts of 4; expected"):
        PopulationSpec(clients=25, cohort=4, cohorts="fixed")
    with pytest.raises(ValueError, match=r"24 clients in cohorts of 4 times the separation 4"):
        PopulationSpec(clients=24, cohort=4, separation=4, cohorts="fixed")


def test_membership_has_cohorts_of_its_members() -> None:
    from foltr_audit.core.settings.experiment import Spec

    with pytest.raises(UsageError, match="expected cohorts=sampled"):
        Spec(population={"clients": 50, "cohort": 10, "cohorts": "fixed"}, membership={})


TRAIN = "train --data synthetic:mq2007:60 --ranker neural:hidden=4"
NEURAL = {"ranker": "neural:hidden=4"}


def test_the_first_model_belongs_to_the_seed(setup_of: SetupOf) -> None:
    one, same, other = (setup_of(seed=seed, train=NEURAL) for seed in (1, 1, 2))
    assert first_model(one).tobytes() == first_model(same).tobytes()
    assert not np.array_equal(first_model(one), first_model(other))
    assert not first_model(setup_of()).any()


@pytest.mark.parametrize("message", ["model", "update"])
def test_a_neural_federation(message: str, setup_of: SetupOf) -> None:
    setup = setup_of(rounds=3, message=message, defense=("clip:norm=2",), train=NEURAL)
    trained = train(setup, keep=True)
    recording = trained.recording
    assert recording is not None
    assert recording.header.ranker == "neural:hidden=4"
    assert recording.header.parameters == trained.parameters.size == 4 * FEATURES + 8
    records = list(recording.rounds())
    assert records[0].parameters.tobytes() == first_model(setup).tobytes()
    for before, after in pairwise(records):
        assert after.parameters.tobytes() == before.aggregate.tobytes()
    for record in records:
        assert record.messages.shape == (8, 4 * FEATURES + 8)
        models = record.messages + (record.parameters if message == "update" else 0.0)
        np.testing.assert_allclose(models.mean(axis=0), record.aggregate, rtol=0, atol=1e-12)
        assert np.linalg.norm(models, axis=1).max() <= 2 + 1e-12


def test_the_model_of_a_neural_run_is_a_first_model_and_that_of_another_ranker_is_not(tmp_path: Path) -> None:
    assert run(f"{TRAIN} --clients 20 --rounds 2 --out", tmp_path / "run").code == 0
    assert run(f"{TRAIN} --clients 20 --rounds 1 --init", tmp_path / "run").code == 0
    np.save(tmp_path / "linear.npy", np.zeros(46), allow_pickle=False)
    line = run(f"{TRAIN} --init", tmp_path / "linear.npy").one_error()
    assert line.endswith("an array of float64 and shape (46,); expected 192 real numbers, one per parameter")


STUDY, DATA = Runner(), {"source": "synthetic:mq2007:30"}


def sent_by(spec: Spec, rounds: list[dict[str, float]]) -> float | None:
    setup = STUDY.setup(spec)
    return bytes_per_client(setup.learner, setup.chain, setup.ranker.n_parameters, spec.trace, rounds)


@pytest.mark.parametrize(
    ("defense", "dtype", "expected"),
    [
        ("none", "float32", 46 * 4),
        ("none", "float64", 46 * 8),
        ("clip:norm=1+laplace:eps=1,sensitivity=2", "float32", 46 * 4),
        ("top-k:k=5", "float32", (5 * (32 + 6) + 7) // 8),
        ("random-k:k=5", "float32", 5 * 4),
        ("quantise:range=1,levels=4", "float32", (46 * 2 + 7) // 8),
        ("quantise:range=1,levels=5", "float32", (46 * 3 + 7) // 8),
        ("sign:scale=1", "float32", 10),  # 3^46 possible messages are below 2^73,
        ("top-k:k=5+laplace:eps=1,sensitivity=2", "float32", 46 * 4),
    ],
)
def test_what_a_model_takes(defense: str, dtype: str, expected: int) -> None:
    table = {"data": DATA, "defense": defense.split("+"), "trace": {"dtype": dtype}}
    assert sent_by(Spec.parse(table), []) == expected


def test_other_messages() -> None:
    def sent(learner: str, rounds: list[dict[str, float]]) -> float | None:
        return sent_by(Spec.parse({"data": DATA, "train": {"learner": learner}}), rounds)

    assert sent("foltr-es", []) == 8 + 2 * 4
    assert sent("pdgd", []) is None
    assert sent("fpdgd", [{"bytes": 1000.0}, {"bytes": 1200.0}]) == 1100
