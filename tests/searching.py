"""What tests of central learners share: users of one server, and plain forms of what a kernel does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foltr_audit.core.plugins import CentralLearner, Learnt, RoundContext, Users
from foltr_audit.core.records import Dataset
from foltr_audit.rng import Streams
from tests.toys import Bools, Floats, Ints, dataset

K = 10
NAVIGATIONAL = ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9))
INFORMATIONAL = ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5))
PERFECT = ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0))
NEVER = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
ALWAYS = ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
Clicking = tuple[Sequence[float], Sequence[float]]

DATA = dataset((1, 14, 7, 10, 2, 30, 5, 3, 13, 11), 5)


def searching(
    data: Dataset = DATA, *, n: int = 20, round_: int = 0, clicking: Clicking = INFORMATIONAL, seed: int = 1
) -> Users:
    """Users 0 .. n-1 of a round; a run of several experiments differs by the seed."""
    context = RoundContext(
        round=round_,
        shares=n,
        clients=np.arange(n),
        counts=np.ones(n, dtype=np.int64),
        parameters=np.zeros(data.n_features),
        source=Streams(seed),
    )
    click, stop = (np.array(values) for values in clicking)
    return Users(
        data=data,
        grades=data.labels.astype(np.int8),
        lifts=np.zeros(n, dtype=np.int64),
        click=click,
        stop=stop,
        clicks="clicks/some",
        context=context,
    )


def asked(data: Dataset, n: int, round_: int = 0) -> Ints:
    """The queries of a round."""
    return np.random.default_rng(100 + round_).integers(0, data.n_queries, size=n)


def played(
    learner: CentralLearner,
    rounds: Sequence[int],
    parameters: Floats,
    state: Floats,
    *,
    data: Dataset = DATA,
    n: int = 20,
    clicking: Clicking = INFORMATIONAL,
    seed: int = 1,
) -> list[Learnt]:
    """Some rounds, each from what the one before left."""
    done = []
    for round_ in rounds:
        users = searching(data, n=n, round_=round_, clicking=clicking, seed=seed)
        done.append(learner.learn(users, asked(data, n, round_), parameters, state))
        parameters, state = done[-1].parameters, done[-1].state
    return done


def all_bytes(done: Sequence[Learnt]) -> list[bytes]:
    """Everything that rounds made."""
    return [array.tobytes() for one in done for array in (one.parameters, one.state, one.shown, one.clicks)]


def features_of(data: Dataset, query: int) -> Floats:
    """Features of a query's documents, float64 (n, d)."""
    rows = data.features[data.offsets[query] : data.offsets[query + 1]]
    return np.ascontiguousarray(rows, dtype=np.float64)


def scores_of(data: Dataset, query: int, model: Floats) -> Floats:
    """Scores of a query's documents, each summed by itself: twins score the same."""
    return np.array([(row * model).sum() for row in features_of(data, query)])


def cascade(users: Users, query: int, shown: Ints, u: Floats) -> Bools:
    """The clicks of one user on a list (k,), from 2 k numbers."""
    clicks, grades = np.zeros(shown.size, dtype=np.bool_), users.data.labels[users.data.offsets[query] :]
    for rank, position in enumerate(shown):
        if position < 0:
            break
        grade = grades[position]
        clicks[rank] = u[2 * rank] < users.click[grade]
        if clicks[rank] and u[2 * rank + 1] < users.stop[grade]:
            break
    return clicks


def padded(positions: Sequence[int], k: int = K) -> Ints:
    """A list of k places."""
    return np.array([*positions, *[-1] * (k - len(positions))], dtype=np.int64)
