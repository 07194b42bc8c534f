"""Balanced intents keep what each query has; synthetic intents look like the real ones and can be learnt."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations, product
from math import factorial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from foltr_audit.core.records import Dataset
from foltr_audit.core.settings.data import DataSpec, are_synthetic, canonical_intents
from foltr_audit.data.intents import balance, balance_collection, intent_files, new_order, read_qrels
from foltr_audit.data.load import load_collection
from foltr_audit.data.synthetic import _ranks, synthesise, synthetic_intents
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams
from tests.fixtures.command import SHARED, answer, refusal, run
from tests.fixtures.reference import dataset

TREC = SHARED / "data" / "trec-web-intents"
IDS = tuple(str(topic) for topic in range(1, 199))


def with_grades(grades: NDArray[np.int64], lengths: list[int]) -> Dataset:
    plain = dataset(np.zeros((grades.shape[1], 1)), grades.max(axis=0), lengths)
    return replace(plain, intents=grades)


def per_query(part: Dataset) -> NDArray[np.int64]:
    """Relevant documents of each intent, (queries, I)."""
    return np.add.reduceat(part.grades > 0, part.offsets[:-1], axis=1, dtype=np.int64).T


# --- balancing ------------------------------------------------------------------------------------


@given(st.data(), st.integers(1, 5), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 99))
def test_each_query_keeps_its_rows(data: st.DataObject, intents: int, lengths: list[int], seed: int) -> None:
    grades = data.draw(hnp.arrays(np.int64, (intents, sum(lengths)), elements=st.integers(0, 3)))
    plain = with_grades(grades, lengths)
    made = balance(plain, Streams(seed))
    assert np.array_equal(made.labels, plain.labels)
    order = new_order(plain.query_ids, intents, Streams(seed))
    for query, (start, stop) in enumerate(zip(plain.offsets[:-1], plain.offsets[1:], strict=True)):
        before, after = plain.grades[:, start:stop].tolist(), made.grades[:, start:stop].tolist()
        assert sorted(before) == sorted(after)
        assert [before[old] for old in order[query]] == after


@cache
def frequencies(seeds: int) -> NDArray[np.float64]:
    """How often each query's i-th intent was the j-th before, over balancings, (queries, I, I)."""
    orders = np.stack([new_order(IDS, 4, Streams(seed)) for seed in range(seeds)])
    return np.asarray((orders[..., np.newaxis] == np.arange(4)).mean(axis=0))


def mean_counts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Relevant documents of each intent, mean over 1,000 balancings."""
    return np.asarray(np.einsum("qij,qj->i", frequencies(1000), counts))


def largest_excess(means: NDArray[np.float64]) -> float:
    return float(np.abs(means / means.mean() - 1).max())


@pytest.mark.parametrize("kind", ["trec", "likeness"])
def test_intents_become_equally_frequent(kind: str) -> None:
    if kind == "likeness":
        part = synthesise("clueweb-intents").train
        assert part.query_ids == IDS
        counts = per_query(part)
    elif TREC.is_dir():
        qrels = read_qrels(str(TREC))
        places = {topic: place for place, topic in enumerate(qrels.topics)}
        counts = np.zeros((198, 4), dtype=np.int64)
        np.add.at(counts, [places[topic] for topic, _ in qrels.rows], qrels.grades.T > 0)
    else:
        pytest.skip("the shared data are not here")
    assert largest_excess(mean_counts(counts)) < 0.01
    # The same statistic notices intents that keep their numbers in one query of twenty.
    assert largest_excess(counts.sum(axis=0)) > 0.2
    stuck = np.where(np.arange(198)[:, np.newaxis] % 20 == 0, counts, 0)
    mostly = mean_counts(counts - stuck) + stuck.sum(axis=0)
    assert largest_excess(mostly) > 0.01


def test_every_order_is_equally_likely() -> None:
    from scipy import stats

    drawn = np.concatenate([new_order(IDS, 4, Streams(seed)) for seed in range(100)])
    codes = drawn @ (4 ** np.arange(4))
    wanted = [int(np.array(order) @ (4 ** np.arange(4))) for order in permutations(range(4))]
    counts = [np.count_nonzero(codes == code) for code in wanted]
    assert sum(counts) == codes.size
    assert len(counts) == factorial(4)
    assert stats.chisquare(counts).pvalue > 0.001
    counts[0] += codes.size // 100
    assert stats.chisquare(counts, np.full(24, sum(counts) / 24)).pvalue < 0.001


def test_balance_depends_on_seed_and_repetition_and_on_no_other_query() -> None:
    made = {at: new_order(IDS, 4, Streams(*at)).tolist() for at in product((1, 2), (0, 1))}
    assert len({str(orders) for orders in made.values()}) == 4
    some = (IDS[7], IDS[3])
    assert new_order(some, 4, Streams(1)).tolist() == [made[1, 0][7], made[1, 0][3]]


def test_a_collection_is_balanced_part_by_part() -> None:
    collection, streams = synthesise("clueweb-intents", queries=10), Streams(3, 2)
    made = balance_collection(collection, streams)
    for name in collection.PARTS:
        assert np.array_equal(made.part(name).grades, balance(collection.part(name), streams).grades)
    assert not np.array_equal(made.train.grades, collection.train.grades)
    assert made.fingerprint == collection.fingerprint
    single = synthesise("mq2007", queries=5)
    assert balance_collection(single, streams) is single
    assert balance(single.train, streams) is single.train


# --- synthetic intents ----------------------------------------------------------------------------


def test_made_up_intents_are_frozen() -> None:
    """As `test_content_is_frozen` of the synthetic data."""
    made = load_collection(DataSpec(source="synthetic:mq2007:60", intents="synthetic", normalise="none"), 7)
    assert made.fingerprint == "57e6487406957188a7e8b472b539836152eab3e46cc09f0356558fa2a2290248"
    assert (made.intents_from, made.synthetic, made.n_intents) == ("synthetic:4", True, 4)


@pytest.mark.parametrize("intents", [2, 4, 10])
def test_every_relevant_document_has_an_intent_and_no_other_has(intents: int) -> None:
    part = synthesise("mslr-web10k", queries=20).train
    made = synthetic_intents(part, intents)
    assert made.n_intents == intents
    assert np.array_equal(made.labels, part.labels > 0)
    assert set(np.unique(made.grades)) == {0, 1}


@pytest.mark.parametrize("intents", [1, 11])
def test_too_few_or_too_many_intents(intents: int) -> None:
    with pytest.raises(DataError, match=rf"^intents: {intents} synthetic intents; expected 2 to 10$"):
        synthetic_intents(synthesise("mq2007", queries=5).train, intents)


def test_a_query_keeps_its_intents_wherever_it_stands() -> None:
    part = synthesise("mq2007", queries=30).train
    made = synthetic_intents(part, 3)
    some = [11, 2, 5]
    assert np.array_equal(synthetic_intents(part.select(some), 3).grades, made.select(some).grades)


def test_scales_of_features_do_not_matter() -> None:
    collection = synthesise("mslr-web10k", queries=10)
    scaled = collection.train.with_features(collection.train.features * np.float32(4))
    assert np.array_equal(synthetic_intents(scaled, 4).grades, synthetic_intents(collection.train, 4).grades)


@given(hnp.arrays(np.float32, (6, 3), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0])))
def test_ranks(features: NDArray[np.float32]) -> None:
    below = (features[:, np.newaxis] > features).sum(axis=1)
    above = (features[:, np.newaxis] < features).sum(axis=1)
    assert np.array_equal(_ranks(features), below - above)


def test_the_likeness_has_the_numbers_of_the_real_qrels() -> None:
    # TREC's: .140, .102, .082, .052 of the documents; .93, .95, .90, .66 of the queries; of the relevant
    # documents .60, .23, .10, .07 have one, two, three, four intents; mean Jaccard index .22 to .30.
    part = synthesise("clueweb-intents").train
    relevant, counts = part.grades > 0, per_query(part)
    assert (part.n_queries, part.n_features, part.n_intents) == (198, 105, 4)
    assert relevant.mean(axis=1) == pytest.approx([0.140, 0.102, 0.082, 0.052], abs=0.005)
    assert (counts > 0).mean(axis=0) == pytest.approx([0.93, 0.95, 0.90, 0.66], abs=0.05)
    assert relevant.any(axis=0).mean() == pytest.approx(0.228, abs=0.01)
    several = np.bincount(relevant.sum(axis=0), minlength=5)[1:] / relevant.any(axis=0).sum()
    assert several == pytest.approx([0.60, 0.23, 0.10, 0.07], abs=0.1)
    both = np.add.reduceat(relevant[:, np.newaxis] & relevant, part.offsets[:-1], axis=2)
    for one, other in permutations(range(4), 2):
        shared = both[one, other]
        there = (counts[:, one] > 0) & (counts[:, other] > 0)
        jaccard = shared[there] / (counts[:, one] + counts[:, other] - shared)[there]
        assert 0.2 < jaccard.mean() < 0.4


# --- the option -----------------------------------------------------------------------------------


def test_what_the_option_means(tmp_path: Path) -> None:
    meant = {"synthetic": "synthetic:4", "synthetic:2": "synthetic:2", "a:b": "a:b"}
    assert {text: canonical_intents(text) for text in meant} == meant
    assert are_synthetic("synthetic:2")
    assert not are_synthetic("./synthetic")
    assert intent_files(None) == intent_files("synthetic:2") == ()
    (tmp_path / "1.txt").write_text("")
    assert intent_files(str(tmp_path)) == (tmp_path / "1.txt",)


@pytest.mark.parametrize("command", ["train", "attack", "audit"])
def test_commands_refuse_intents_that_are_not_there(command: str, tmp_path: Path) -> None:
    asked = f"{command} --data synthetic:mq2007:30 --intents"
    assert "no qrels; expected 1.txt, 2.txt and so on" in refusal(asked, tmp_path)
    assert refusal(asked, "synthetic:1").startswith("error: --intents: ")


def test_saved_configurations_keep_the_intents(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    run("train --intents synthetic --no-balance --rounds 1 --clients 2 --save-config", spec)
    assert 'intents = "synthetic:4"\nbalance = false\n' in spec.read_text()


def test_a_run_finds_its_intents_again(tmp_path: Path) -> None:
    small = "attack --data synthetic:mq2007:60 --intents synthetic:2 --clients 4 --rounds 1 --out"
    first = answer(small, tmp_path / "run")["dataset"]
    again = answer("attack --trace", tmp_path / "run")["dataset"]
    for facts in (first, again):
        assert (facts["intents"], facts["intents_from"]) == (2, "synthetic:2")
    assert again["folds"] == first["folds"]
    error = refusal("attack --intents synthetic:3 --trace", tmp_path / "run", code=3)
    assert "error: trace: recorded on" in error


def test_a_collection_in_hand_names_its_intents() -> None:
    from foltr_audit.api import load_data
    from foltr_audit.core.settings.experiment import Spec

    made = load_data("synthetic:mq2007:20", intents="synthetic:2")
    spec = Spec(data=made)
    assert spec.data.intents == "synthetic:2"
    assert replace(made, intents_from=None).n_intents == 2
