"""Topic splits: no query is lost, none is there twice, and each group is what it is said to be."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from foltr_audit.studies.model_merging.splits import (
    METHODS,
    NO_TOPIC,
    CategoryCounts,
    Method,
    QueryPartition,
    QueryTopics,
    merge_queries,
    mixture_rows,
    partition,
    query_topics,
)
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.rng import Streams


class Case(NamedTuple):
    """Judged queries as lists of (category, label) of their relevant documents."""

    queries: list[list[tuple[int, int]]]
    categories: int

    @property
    def counts(self) -> CategoryCounts:
        shape = (len(self.queries), self.categories)
        relevant, sums, highest = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for q, documents in enumerate(self.queries):
            for category, label in documents:
                relevant[q, category] += 1
                sums[q, category] += label
                highest[q, category] = max(highest[q, category], label)
        return CategoryCounts(relevant=relevant, label_sums=sums, highest=highest)

    def of(self, query: int) -> list[int]:
        return [category for category, _ in self.queries[query]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    categories = draw(st.integers(1, 4))
    document = st.tuples(st.integers(0, categories - 1), st.integers(1, 4))
    return Case(draw(st.lists(st.lists(document, max_size=7), min_size=1, max_size=12)), categories)


def divided(case: Case, method: Method, *chosen: int) -> QueryPartition:
    counts = case.counts
    topics = query_topics(counts, Streams(1).generator("test"))
    return partition(method, counts.relevant, topics, chosen)


def groups(found: QueryPartition) -> list[NDArray[np.int64]]:
    return [*found.clients, found.remaining, found.irrelevant]


@given(cases(), st.sampled_from(METHODS), st.sets(st.integers(0, 3), min_size=1))
def test_no_query_is_lost_and_none_is_there_twice(case: Case, method: Method, chosen: set[int]) -> None:
    assume(max(chosen) < case.categories)
    found = divided(case, method, *chosen)
    everything = np.concatenate(groups(found))
    assert sorted(everything.tolist()) == list(range(len(case.queries)))
    for group in groups(found):
        assert (np.diff(group) > 0).all()


@given(cases(), st.integers(0, 3))
def test_each_group_is_what_it_is_said_to_be(case: Case, category: int) -> None:
    assume(category < case.categories)
    for query in divided(case, "exclusive", category).clients[0]:
        assert set(case.of(query)) == {category}
    for query in divided(case, "no-tie-breaking", category).clients[0]:
        held = case.of(query)
        others = set(held) - {category}
        assert all(held.count(category) > held.count(other) for other in others)
        assert category in held
    for method in METHODS:
        found = divided(case, method, category)
        assert all(case.of(query) and category not in case.of(query) for query in found.clients[1])
        assert all(category in case.of(query) for query in found.remaining)
        assert not any(case.of(query) for query in found.irrelevant)


@given(cases(), st.integers(0, 3))
def test_methods_grow_stricter_and_share_the_second_client(case: Case, category: int) -> None:
    assume(category < case.categories)
    first = [set(divided(case, method, category).clients[0].tolist()) for method in METHODS]
    assert first[0] >= first[1] >= first[2]
    second = [divided(case, method, category).clients[1].tolist() for method in METHODS]
    assert second[0] == second[1] == second[2]


@given(cases())
def test_topics_follow_the_rule_of_the_paper(case: Case) -> None:
    topics = query_topics(case.counts, Streams(2).generator("test"))
    for query, documents in enumerate(case.queries):
        if not documents:
            assert topics[query] == NO_TOPIC
            continue
        votes = {}
        for category in {category for category, _ in documents}:
            labels = [label for held, label in documents if held == category]
            votes[category] = (len(labels), sum(labels), max(labels))
        best = max(votes.values())
        assert votes[int(topics[query])] == best


@given(cases())
def test_shares_of_mixed_queries_exclude_each_other(case: Case) -> None:
    topics = QueryTopics(categories=tuple(range(case.categories)), counts={"train": case.counts}, topics={})
    found: Counter[str] = Counter()
    for query in filter(None, map(case.of, range(len(case.queries)))):
        (_, most), *others = Counter(query).most_common()
        lead = most - (others[0][1] if others else 0)
        kind = (
            "tie"
            if not lead
            else "exclusive"
            if not others
            else "lead_1_to_3"
            if lead <= 3
            else "lead_over_3"
        )
        found[kind] += 1
    (row,) = mixture_rows(topics)
    assert row["queries"] == found.total()
    for kind in ("exclusive", "tie", "lead_1_to_3", "lead_over_3") if found else ():
        assert row[kind] == pytest.approx(found[kind] / found.total())


def test_the_last_tie_break_is_fair_and_repeats_with_its_seed() -> None:
    counts = Case([[(0, 2), (1, 2), (2, 1)]] * 4000, 3).counts
    topics = query_topics(counts, Streams(1).generator("t"))
    assert set(topics.tolist()) == {0, 1}
    # Binomial of 4,000 with 1/2: five standard errors are 158; a share of .46 would be seen.
    assert abs((topics == 0).sum() - 2000) < 158
    assert (query_topics(counts, Streams(1).generator("t")) == topics).all()
    assert (query_topics(counts, Streams(2).generator("t")) != topics).any()


@given(cases(), st.sampled_from(METHODS))
def test_clients_of_several_topics_have_the_queries_that_each_would_have_alone(
    case: Case, method: Method
) -> None:
    assume(case.categories > 1)
    together = divided(case, method, *range(case.categories)).clients
    alone = [divided(case, method, category).clients[0] for category in range(case.categories)]
    assert [found.tolist() for found in together] == [found.tolist() for found in alone]


@given(cases(), st.tuples(st.integers(1, 7), st.integers(1, 7)), st.booleans())
def test_d_merge_takes_the_ends_of_the_remaining_queries(
    case: Case, wanted: tuple[int, int], pair: bool
) -> None:
    assume(pair or case.categories > 1)
    counts, chosen = case.counts.relevant, (0,) if pair else (0, 1)
    remaining = divided(case, "exclusive", 0).remaining
    found = merge_queries(remaining, counts, chosen, wanted)
    for client, (queries, number) in enumerate(zip(found, wanted, strict=True)):
        assert queries.size == min(number, remaining.size)
        assert set(queries.tolist()) <= set(remaining.tolist())
        here = counts[:, 0] if pair else counts[:, client]
        left = here[np.setdiff1d(remaining, queries)]
        if queries.size and left.size:
            if client == 1 and pair:
                assert here[queries].min() >= left.max()
            else:
                assert here[queries].max() <= left.min()


def test_d_merge_by_hand() -> None:
    relevant = np.array([[5, 0], [1, 3], [3, 1], [1, 1], [9, 2], [2, 0]])
    remaining = np.array([0, 1, 2, 3, 5])
    pair = merge_queries(remaining, relevant, (0,), (2, 2))
    assert [queries.tolist() for queries in pair] == [[1, 3], [0, 2]]
    several = merge_queries(remaining, relevant, (0, 1), (2, 3))
    assert [queries.tolist() for queries in several] == [[1, 3], [0, 2, 5]]


@pytest.mark.parametrize("category", [0, 1])
def test_a_tie_is_in_the_initial_split_only(category: int) -> None:
    case = Case([[(0, 1), (1, 1)]] * 40, 2)
    assert 0 < divided(case, "initial", category).clients[0].size < 40
    assert divided(case, "no-tie-breaking", category).clients[0].size == 0
    assert divided(case, "no-tie-breaking", category).remaining.size == 40
