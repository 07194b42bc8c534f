"""The data that clients search and the grades they click by, where clients differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import ClickModelMixture
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.ranking_metrics import ideal_dcg
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.dataset import QueryOrigin, joined
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Features, Floats, Ints

_MOST_GRADES = 128  # over all click models: kernels read grades as int8


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientData:
    """A data set as clients see it, with the grades that each click model and intent goes by.

    Clients that hold documents of some grades only have shorter queries. These follow the whole ones in
    `data`, so that one index names what any client searches.

    Attributes:
        data: the queries of a data set, then those with documents of certain grades only.
        origin: part and position that the queries and documents of `data` come from.
        holdings: grades of the documents that a client may hold, None for all; the first is None.
        places: query of `data` for each query of that data set under each holding, int64 (holdings, queries),
            -1 where no document is left.
        models: the click models.
        intents: number of intents that clicks depend on; 1 where relevance under any intent counts.
        largest_label: highest grade of the collection.
        trained: the same queries with the features on which clients train, for one interaction of a round
            after the other, again from the first after the last; empty if they train on those of `data`.
        promoted: document of `data` that has the highest grade under the last click model, where all others
            have the lowest; None if that model reads the grades as they are.
    """

    data: Dataset
    origin: QueryOrigin
    holdings: tuple[tuple[int, ...] | None, ...]
    places: Ints
    models: tuple[ClickModel, ...]
    intents: int
    largest_label: int
    trained: tuple[Dataset, ...] = ()
    promoted: int | None = None

    def training_data(self, step: int) -> Dataset:
        """The data on which clients train in their interaction number `step` of a round."""
        return self.trained[step % len(self.trained)] if self.trained else self.data

    def trained_features(self, queries: Ints, shown: Ints, steps: Ints) -> Features:
        """Features on which clients train of lists (I, k) for queries (I,), (I, k, d), 0 at the padding."""
        every = self.trained or (self.data,)
        out = every[0].shown_features(queries, shown)
        for number, data in enumerate(every[1:], start=1):
            here = steps % len(every) == number
            out[here] = data.shown_features(queries[here], shown[here])
        return out

    @classmethod
    def of(
        cls,
        whole: Dataset,
        origin: QueryOrigin,
        models: Sequence[ClickModel],
        *,
        largest_label: int,
        intents: int = 1,
        holdings: Sequence[tuple[int, ...]] = (),
    ) -> ClientData:
        """Make the data of clients with these `holdings`, sets of grades.

        Raises:
            UsageError: no document has a grade of a set, users hold other documents than those that they
                were shown, or there are too many click models.
        """
        if holdings and whole.users is not None:
            raise UsageError(
                "scenario: clients hold documents of some grades, but the data are lists of real users; "
                "expected a scenario in which clients hold all"
            )
        if len(models) * (largest_label + 1) > _MOST_GRADES:
            raise UsageError(
                f"scenario: {len(models)} click models for labels up to {largest_label}; "
                f"expected {_MOST_GRADES // (largest_label + 1)} at most"
            )
        held = [_held(whole, grades) for grades in holdings]
        firsts = np.cumsum([whole.n_queries, *(each.data.n_queries for each in held)])
        places = [
            np.arange(whole.n_queries),
            *(each.places(first) for each, first in zip(held, firsts, strict=False)),
        ]
        return cls(
            data=joined([whole, *(each.data for each in held)]) if held else whole,
            origin=_origin(whole, origin, held) if held else origin,
            holdings=(None, *holdings),
            places=np.stack(places),
            models=tuple(models),
            intents=intents,
            largest_label=largest_label,
        )

    @classmethod
    def alike(cls, data: Dataset, click_model: ClickModel, largest_label: int) -> ClientData:
        """A data set whose documents all clients hold, with one click model."""
        return cls.of(data, QueryOrigin.of_part(0, data), (click_model,), largest_label=largest_label)

    @property
    def click_model(self) -> ClickModel:
        return self.models[0] if len(self.models) == 1 else ClickModelMixture(models=self.models)

    @cached_property
    def grades(self) -> NDArray[np.int8]:
        """Grades that users click by, for one way after the other, int8 (ways documents,).

        Way `m I + i` is click model m under intent i of I. Grades of model m are shifted by a multiple of m:
        see `ClickModelMixture`.
        """
        ways = [self.judged(intent).labels for intent in range(self.intents)]
        stride = self.largest_label + 1
        every = [m * stride + labels for m in range(len(self.models)) for labels in ways]
        if self.promoted is not None:
            only = self.largest_label * (np.arange(self.data.n_documents) == self.promoted)
            every[-len(ways) :] = [(len(self.models) - 1) * stride + only] * len(ways)
        return np.concatenate(every).astype(np.int8)

    def lifts(self, ways: Ints) -> Ints:
        """Where the grades of some ways begin in `grades`."""
        return np.ascontiguousarray(ways * self.data.n_documents)

    def clicked_grades(self, queries: Ints, ways: Ints, shown: Ints) -> Ints:
        """Grades of lists (C, k) shown for queries (C,), as the click model reads them, -1 at the padding."""
        first = self.lifts(ways) + self.data.offsets[queries]
        rows = first[:, np.newaxis] + np.maximum(shown, 0)
        return np.where(shown >= 0, self.grades[rows].astype(np.int64), -1)

    def judged(self, intent: int) -> Dataset:
        return self._judged[intent]

    @cached_property
    def _judged(self) -> list[Dataset]:
        return [self.data] if self.intents == 1 else [self.data.under(i) for i in range(self.intents)]

    @cached_property
    def ideals(self) -> list[Floats]:
        """Ideal DCG of every query under each intent, (queries,) each."""
        return [ideal_dcg(data) for data in self._judged]


class _GradeSubset(NamedTuple):
    """The documents of some grades of a data set.

    Attributes:
        data: the documents that are held.
        queries: index of each query in the whole, int64 (queries of `data`,).
        documents: position of each document in its query of the whole, int64 (documents of `data`,).
        whole: number of queries of the whole.
    """

    data: Dataset
    queries: Ints
    documents: Ints
    whole: int

    def places(self, first: int) -> Ints:
        """Number of each query of the whole, the held ones numbered from `first` on; -1 of the others."""
        places = np.full(self.whole, -1)
        places[self.queries] = first + np.arange(self.queries.size)
        return places


def _held(whole: Dataset, grades: Sequence[int]) -> _GradeSubset:
    """The documents of some grades.

    Raises:
        UsageError: there is none.
    """
    rows = np.flatnonzero(np.isin(whole.labels, grades))
    if not rows.size:
        words = " or ".join(map(str, grades))
        raise UsageError(f"scenario: no document has grade {words}; expected one at least")
    query = np.searchsorted(whole.offsets, rows, side="right") - 1
    kept, sizes = np.unique(query, return_counts=True)
    data = Dataset(
        features=whole.features[rows],
        labels=whole.labels[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        query_ids=tuple(whole.query_ids[q] for q in kept),
        document_ids=[whole.document_ids[row] for row in rows.tolist()],
        intents=None if whole.intents is None else whole.intents[:, rows],
    )
    return _GradeSubset(data, kept, rows - whole.offsets[query], whole.n_queries)


def _origin(whole: Dataset, origin: QueryOrigin, held: Sequence[_GradeSubset]) -> QueryOrigin:
    """The origin of a data set that is followed by subsets of it."""
    inside = np.arange(whole.n_documents) - np.repeat(whole.offsets[:-1], whole.lengths)
    return QueryOrigin(
        part=np.concatenate([origin.part, *(origin.part[each.queries] for each in held)]),
        query=np.concatenate([origin.query, *(origin.query[each.queries] for each in held)]),
        document=np.concatenate([inside, *(each.documents for each in held)]),
    )
