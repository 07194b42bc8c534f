"""The order of rows and files changes no result, and what is written speaks of documents by their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foltr_audit as fa
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joined, ranks
from foltr_audit.data.document_order import in_content_order
from foltr_audit.data.letor import read_letor
from foltr_audit.data.load import load_collection
from foltr_audit.errors import DataError, TraceError
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runs.folder import FRESH, TRAINING
from foltr_audit.experiments.stages import train
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace
from tests.fixtures.data_cache import load_data
from tests.fixtures.tiny import dataset

LENGTHS = (3, 12, 1, 7, 15, 4, 11, 2, 13, 5)


def lines_of(query: str, rows: int, rng: np.random.Generator, twins: bool = True) -> list[str]:
    """Rows of a query; the first two documents differ in their names alone, or in nothing."""
    values = rng.normal(size=(rows, 4)).round(3)
    labels = rng.integers(0, 3, rows)
    if twins and rows > 2:
        values[1], labels[1] = values[0], labels[0]
    cells = [" ".join(f"{i}:{x}" for i, x in enumerate(row, 1)) for row in values.tolist()]
    return [
        f"{label} qid:{query} {row} #docid = {query}-{n}"
        for n, (label, row) in enumerate(zip(labels.tolist(), cells, strict=True))
    ]


def queries_of(seed: int = 0) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    return {str(7 * n + 3): lines_of(str(7 * n + 3), rows, rng) for n, rows in enumerate(LENGTHS)}


def written(path: Path, queries: dict[str, list[str]], order: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line for query in order for line in queries[query]) + "\n")
    return path


def shuffled(queries: dict[str, list[str]], seed: int) -> tuple[dict[str, list[str]], list[str]]:
    rng = np.random.default_rng(seed)
    rows = {query: [lines[i] for i in rng.permutation(len(lines))] for query, lines in queries.items()}
    return rows, [list(rows)[i] for i in rng.permutation(len(rows))]


def same_content(a: Dataset, b: Dataset) -> None:
    for name in ("features", "labels", "offsets"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.query_ids, tuple(a.document_ids)) == (b.query_ids, tuple(b.document_ids))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([-0.5, 0.0, -0.0, 1.0]),
            st.sampled_from([0.0, 2.0, 9.0]),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=14,
    ),
    random=st.randoms(use_true_random=False),
)
def test_the_order_follows_from_the_content_alone(
    rows: list[tuple[int, float, float, int]], random: Random
) -> None:
    """Whatever the order of the rows was; equal ones are in the order of their ids. 9 is a missing value."""
    named = [(str(q), x, y, label, f"d{n}") for n, (q, x, y, label) in enumerate(rows)]
    order = random.sample(list(dict.fromkeys(row[0] for row in named)), len({row[0] for row in named}))
    shuffled_rows = [row for q in order for row in random.sample(named, len(named)) if row[0] == q]

    def sorted_rows(rows: list[tuple[str, float, float, int, str]], dtype: str) -> Dataset:
        sizes = Counter(row[0] for row in rows)  # in the order of the rows
        features = np.array([row[1:3] for row in rows], dtype=dtype)
        data = Dataset(
            features=np.where(features == 9, np.nan, features).astype(dtype),
            labels=np.array([row[3] for row in rows]),
            offsets=np.concatenate([[0], np.cumsum(list(sizes.values()))]),
            query_ids=tuple(sizes),
            document_ids=tuple(row[4] for row in rows),
        )
        return in_content_order(data)

    found, other = sorted_rows(shuffled_rows, "float32"), sorted_rows(sorted(named), "float64")
    same_content(found, other)
    assert found.features.astype(np.float64).tobytes() == other.features.tobytes()  # also the sign of 0
    assert found.query_ids == tuple(sorted(order))
    there = [(q, *x, y, name) for q, x, y, name in zip(
        np.repeat(found.query_ids, found.lengths).tolist(), np.nan_to_num(found.features, nan=9).tolist(),
        found.labels.tolist(), found.document_ids, strict=True,
    )]  # fmt: skip
    assert sorted(there) == sorted(named)
    assert all(a[4] < b[4] for a, b in pairwise(there) if str(a[:4]) == str(b[:4]))


def test_the_place_of_a_document_says_nothing_about_it() -> None:
    """Grades and features are as often in the upper as in the lower half of their query, in files sorted by
    either; the order of the file fails this."""
    rng = np.random.default_rng(8)
    features = rng.normal(size=(4000, 3)).round(1)
    labels = np.clip(np.round(features[:, 0]), 0, 4).astype(np.int64)
    order = np.lexsort((-labels, np.arange(4000) // 20))
    data = Dataset(
        features=features[order], labels=labels[order], offsets=np.arange(0, 4001, 20),
        query_ids=tuple(map(str, range(200))), document_ids=("",) * 4000,
    )  # fmt: skip

    def z(part: Dataset) -> float:
        """Standard score of the correlation of place and grade."""
        return float(np.corrcoef(np.arange(4000) % 20, part.labels)[0, 1] * np.sqrt(4000))

    assert abs(z(in_content_order(data))) < 4
    assert abs(z(data)) > 20


def place_of(data: Dataset) -> dict[tuple[int, int], str]:
    """Name of each document by the places of its query and itself, in a data set in the order of its file."""
    return {
        (q, i): data.document_ids[int(data.offsets[q]) + i]
        for q in range(data.n_queries)
        for i in range(int(data.lengths[q]))
    }


@pytest.mark.parametrize("chosen", [None, [4, 1, 8, 2]])
def test_places_in_the_file_and_back(tmp_path: Path, chosen: list[int] | None) -> None:
    rows, order = shuffled(queries_of(), 3)
    file = read_letor(written(tmp_path / "a.txt", rows, order)).dataset
    given = file.features.copy()
    ours = in_content_order(file)
    np.testing.assert_array_equal(file.features, given)
    own = in_content_order(file.with_features(given), overwrite=True).features
    assert np.shares_memory(own, given)
    np.testing.assert_array_equal(own, ours.features)
    if chosen is not None:  # the file then is that of the chosen queries
        names = {ours.query_ids[q] for q in chosen}
        file = file.select([q for q in range(file.n_queries) if file.query_ids[q] in names])
        ours = ours.select(chosen)
    names_there, names_here = place_of(file), place_of(ours)
    for q in range(ours.n_queries):
        n = int(ours.lengths[q])
        shown = np.array([[*range(n), -1]])
        queries, places = ours.in_file(np.array([q]), shown)
        assert places[0, -1] == -1
        there = [names_there[int(queries[0]), place] for place in places[0, :n].tolist()]
        assert there == [names_here[q, i] for i in range(n)]
        back, lists = ours.of_file(queries, places)
        assert (back.tolist(), lists.tolist()) == ([q], shown.tolist())
    far = np.array([ours.n_queries, 0]), np.array([[0, 1], [99, 0]])
    queries, lists = ours.of_file(*far)
    assert (queries[0], lists[1, 0]) == (ours.n_queries, 99), "what is not there stays for the check of it"


def test_joined_data_keep_the_places_of_each() -> None:
    files = [dataset((4, 2, 3), seed) for seed in (1, 2)]
    there, ours = joined(files), joined([in_content_order(file) for file in files])
    for q in range(ours.n_queries):
        shown = np.arange(int(ours.lengths[q]))[np.newaxis]
        queries, places = ours.in_file(np.array([q]), shown)
        rows = there.shown_features(queries, places)
        np.testing.assert_array_equal(rows, ours.shown_features(np.array([q]), shown))


def test_joined_parts_are_kept_until_others_are_wanted(collection: Collection) -> None:
    both = collection.joined_parts(("vali", "test"))
    assert collection.joined_parts(["vali", "test"]) is both
    assert both.n_queries == collection.vali.n_queries + collection.test.n_queries
    assert np.array_equal(both.labels, np.concatenate([collection.vali.labels, collection.test.labels]))
    assert collection.joined_parts(("train",)) is collection.train
    assert collection.joined_parts(("test", "vali")) is not both
    with pytest.raises(DataError, match="no part 'all'"):
        collection.joined_parts(("all",))


def test_ranks() -> None:
    assert ranks(np.array([7, 3, 9, 3])).tolist() == [2, 0, 3, 1]


def single(folder: Path, rows: dict[str, list[str]], order: Sequence[str]) -> str:
    return str(written(folder / "rows.txt", rows, order))


def pieces(folder: Path, rows: dict[str, list[str]], order: Sequence[str]) -> str:
    """Four files; which query is in which one follows from the order as well."""
    for number in range(4):
        written(folder / f"S{number + 1}.txt", rows, list(order)[number::4])
    return str(folder)


@pytest.mark.parametrize("normalise", ["zscore", "zscore-parts", "query-minmax"])
@pytest.mark.parametrize("write", [single, pieces])
def test_the_order_of_rows_and_files_changes_no_data(
    tmp_path: Path, write: Callable[..., str], normalise: str
) -> None:
    queries = queries_of()
    first = load_data(write(tmp_path / "0", queries, list(queries)), normalise=normalise)
    for seed in (1, 2):
        again = load_data(write(tmp_path / str(seed), *shuffled(queries, seed)), normalise=normalise)
        for part in Collection.PARTS:
            same_content(first.part(part), again.part(part))
        assert first.fingerprint == again.fingerprint
        assert first.row_order != again.row_order


def test_arrays_are_in_the_order_of_content() -> None:
    rng = np.random.default_rng(4)
    X, y, ids = rng.normal(size=(90, 5)), rng.integers(0, 3, 90), np.arange(90) // 9
    mixed = rng.permutation(90)
    one, other = fa.make_data(X, y, ids), fa.make_data(X[mixed], y[mixed], ids[mixed])
    for part in Collection.PARTS:
        same_content(one.part(part), other.part(part))


@pytest.mark.parametrize("learner", ["fpdgd", "pdgd", "coltr", "foltr-es:interactions=4"])
def test_rows_in_another_order_give_the_same_training(tmp_path: Path, learner: str) -> None:
    """Also lists in score order of documents without any difference, under the untrained model too."""
    queries, found = queries_of(), []
    for seed in (0, 1):
        rows, order = (queries, list(queries)) if seed == 0 else shuffled(queries, seed)
        spec = fa.Spec(
            data={"source": single(tmp_path / str(seed), rows, order)},
            population={"clients": 8},
            train={"rounds": 3, "learner": learner, "init": "zeros"},
        )
        trained = train(Setup(spec, load_collection(spec.data, spec.seed)))
        found.append((trained.parameters.tobytes(), trained.untrained, trained.rounds))
    assert found[0] == found[1]


def by_name(names: dict[str, dict[tuple[int, int], str]], trace: Trace) -> set[tuple[str, ...]]:
    """Every shown list of a trace as the names of its documents, by the rows of the files."""
    lists = set()
    for record in trace.rounds():
        for part, query, shown in zip(record.part, record.query, record.shown, strict=True):
            places = names[Collection.PARTS[part]]
            lists.add(tuple(places[int(query), p] for p in shown[shown >= 0].tolist()))
    return lists


def test_traces_and_guesses_name_documents_by_their_rows(tmp_path: Path) -> None:
    """Of two Runs on the same rows in another order, by the rows of either file."""
    queries, seen, scores = queries_of(), [], []
    for seed in (0, 5):
        rows, order = (queries, list(queries)) if seed == 0 else shuffled(queries, seed)
        folder = tmp_path / str(seed)
        for n, part in enumerate(Collection.PARTS):
            written(folder / f"{part}.txt", rows, [q for q in order if q in list(queries)[n::3]])
        spec = fa.Spec(
            data={"source": str(folder)},
            population={"clients": 8},
            train={"rounds": 2},
            attack={"methods": ["olsr"], "click_models": ["informational"]},
        )
        run = tmp_path / f"run{seed}"
        memory, disk = fa.attack(spec).rows(), fa.attack(spec, out=run).rows()
        assert aucs(memory) == aucs(disk) == aucs(fa.attack_trace(run).rows())
        scores.append(aucs(memory))
        names = {part: place_of(read_letor(folder / f"{part}.txt").dataset) for part in Collection.PARTS}
        traces = Trace.open(run / TRAINING), Trace.open(run / FRESH / "informational")
        recorded = TraceAttack.open(run)
        recorded.write_guesses(tmp_path / f"{seed}.csv")
        guesses = pl.read_csv(tmp_path / f"{seed}.csv", schema_overrides={"query": pl.String})
        number = {
            name: (part, q)
            for part in Collection.PARTS
            for q, name in enumerate(read_letor(folder / f"{part}.txt").dataset.query_ids)
        }
        named = {
            (names[number[query][0]][number[query][1], document], round(score, 12))
            for query, document, score in guesses.select("query", "document", "score").iter_rows()
        }
        seen.append([*(by_name(names, trace) for trace in traces), named])
    assert scores[0] == scores[1]
    assert seen[0] == seen[1]
    with pytest.raises(TraceError, match="another order"):
        fa.attack_trace(run, data=str(tmp_path / "0"))


def aucs(rows: list[dict[str, Any]]) -> list[Any]:
    return [(row["method"], row["auc"], row["auc_ci95"], row["accuracy"]) for row in rows]
