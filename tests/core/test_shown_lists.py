"""Which of several documents with equal scores is shown first."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.shown_lists import TIES, lists_in_score_order, tie_stream
from foltr_audit.data.document_order import in_content_order
from foltr_audit.kernels.ranking import BY_POSITION
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Ints
from tests.fixtures.tiny import dataset

NOBODY = np.empty(0, dtype=np.int64)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    lists=st.lists(
        st.lists(st.sampled_from([-2.5, 0.0, 1.0]), min_size=1, max_size=14), min_size=1, max_size=5
    ),
    round_=st.integers(0, 5),
)
def test_equal_scores_are_in_the_order_of_the_numbers_of_their_query(
    lists: list[list[float]], round_: int
) -> None:
    data = in_content_order(dataset([len(values) for values in lists], 1))
    queries = np.arange(len(lists))[::-1].copy()
    scores = np.concatenate([lists[q] for q in queries])
    starts = np.concatenate([[0], np.cumsum([len(lists[q]) for q in queries])])
    numbers = Streams(3).clients(TIES, round_, np.arange(len(lists))).uniform(14)
    shown = lists_in_score_order(scores, starts, data, queries, Streams(3).clients(TIES, round_, NOBODY))
    for q, row in zip(queries.tolist(), shown.tolist(), strict=True):
        best = sorted(range(len(lists[q])), key=lambda i: (-lists[q][i], numbers[q, i]))[:10]
        assert row == best + [-1] * (10 - len(best))


def first_shown(rounds: int, *, in_file_order: bool = False) -> Ints:
    """Which of twelve equal documents is first in each round, int64 (rounds,)."""
    data = dataset((12,), 1)
    data = data if in_file_order else in_content_order(data)
    given = np.zeros(12), np.array([0, 12]), data, np.array([0])
    every = (lists_in_score_order(*given, Streams(1).clients(TIES, t, NOBODY)) for t in range(rounds))
    return np.array([shown[0, 0] for shown in every])


def test_every_document_of_several_equals_is_first_equally_often() -> None:
    """By a chi-squared test at one in ten thousand, which the order of the file fails."""
    from scipy.stats import chisquare

    def p(firsts: Ints) -> float:
        return float(chisquare(np.bincount(firsts, minlength=12)).pvalue)

    assert p(first_shown(3000)) > 1e-4
    assert p(first_shown(3000, in_file_order=True)) < 1e-4


def test_data_in_the_order_of_their_file_rank_the_upper_row_first() -> None:
    streams = Streams(1).clients(TIES, 0, NOBODY)
    assert tie_stream(dataset((3,), 1), streams) is BY_POSITION
    assert tie_stream(in_content_order(dataset((3,), 1)), streams).drawn


def test_clients_of_one_query_and_round_see_the_same_list_and_other_queries_another() -> None:
    data = in_content_order(dataset((12, 12), 1))
    given = np.zeros(36), np.arange(0, 37, 12), data, np.array([0, 1, 0])
    here, later = (lists_in_score_order(*given, Streams(1).clients(TIES, t, NOBODY)) for t in (4, 5))
    assert here[0].tolist() == here[2].tolist() != here[1].tolist()
    assert here[0].tolist() != later[0].tolist()
    moved = lists_in_score_order(*given, Streams(1).under("fresh/").clients(TIES, 4, NOBODY))
    assert moved[0].tolist() != here[0].tolist()
