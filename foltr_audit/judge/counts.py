"""Judges attacks that count clicks: sums over clients who saw one list, compared with their clicks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference
from foltr_audit.core.results import Estimate
from foltr_audit.errors import UsageError
from foltr_audit.inference.count_decoder import cascade_rates, median_rates, weighted_median
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.observer import (
    RoundView,
    knowledge_of,
    query_names,
    whole_round,
    why_not_one_list,
    with_lists,
)
from foltr_audit.judge.round_sums import SummedRound
from foltr_audit.judge.task import Evidence, JudgeSetting, MessageTask, TaskScore, no_rows
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

_DIGITS = 2  # estimates that agree in these are tied; more digits would rank rounding errors


@dataclass(frozen=True, kw_only=True, eq=False)
class CountEvidence(Evidence):
    """L lists, each shown to several clients whose updates were summed.

    Attributes:
        clients: of each sum, int64 (L,).
        shown: position of each shown document inside its query, int64 (L, k), padded with -1.
        counts: clients that clicked each document, the truth, int64 (L, k).
        estimates: each attack's estimate of it, float64 (L, k), by label.
        baselines: estimates without a message, float64 (L, k), by name.
    """

    query: NDArray[np.str_] = no_rows(np.str_)
    clients: Ints = no_rows(np.int64)
    shown: Ints = no_rows(np.int64, 1)
    counts: Ints = no_rows(np.int64, 1)
    estimates: dict[str, Floats] = field(default_factory=dict)
    baselines: dict[str, Floats] = field(default_factory=dict)

    @property
    def is_document(self) -> Bools:
        """False at the padding, bool (L, k)."""
        return self.shown >= 0

    def scores(self, streams: Streams) -> Iterator[TaskScore]:
        """How far estimates are off, those made without a message first.

        `error` is the mean absolute error of a document's click-through rate, `rmse` the root of the mean
        squared one, `spearman` the mean over lists of the rank correlation within a list where it is defined,
        `exact` the share of documents whose rounded count is right. `constant` is the one rate that errs
        least in hindsight; `position-prior` what is expected of the grades that positions usually show,
        `position-prior:median` what errs least in absolute value of that, `relevance-prior` what is expected
        where grades are known.
        """
        if not self.query.size:
            return
        resamples = QueryBootstrap(self.query, streams)
        facts = {
            "lists": int(self.query.size),
            "queries": int(resamples.names.size),
            "documents": int(self.is_document.sum()),
            "clients_min": int(self.clients.min()),
            "clients_max": int(self.clients.max()),
        }
        for label, estimates in (*self.baselines.items(), *self.estimates.items()):
            metrics = self._metrics(estimates, resamples)
            yield TaskScore(method=label, baseline=label in self.baselines, facts=facts, metrics=metrics)

    def _metrics(self, estimates: Floats, resamples: QueryBootstrap) -> dict[str, Estimate]:
        here = self.is_document
        documents = here.sum(axis=1).astype(np.float64)
        errors = np.where(here, (estimates - self.counts) / self.clients[:, np.newaxis], 0.0)
        right = here & (np.rint(estimates) == self.counts)
        return {
            "error": resamples.ratio(np.abs(errors).sum(axis=1), documents, lowest=0.0),
            "rmse": resamples.ratio((errors**2).sum(axis=1), documents, np.sqrt, lowest=0.0),
            "spearman": resamples.mean(rank_correlations(estimates, self.counts, here)),
            "exact": resamples.ratio(
                right.sum(axis=1).astype(np.float64), documents, lowest=0.0, highest=1.0
            ),
        }


def rank_correlations(estimates: Floats, counts: Ints, here: Bools) -> Floats:
    """Spearman's rank correlation of counts with estimates, rounded to hundredths, in each list (L, k); (L,).

    NaN where either side is constant; `here` is False at the padding.
    """
    from scipy.stats import rankdata

    out = np.full(len(counts), np.nan)
    for i in range(len(counts)):
        ranks = [rankdata(np.round(side[i, here[i]], _DIGITS)) for side in (estimates, counts)]
        a, b = (side - side.mean() if side.size else side for side in ranks)
        scale = float(np.sqrt((a @ a) * (b @ b)))
        if scale > 0:
            out[i] = float(a @ b) / scale
    return out


@dataclass(eq=False)
class _ListSum:
    """The sum over all clients who started from one model and saw one list: updates (P,), clicks (k,)."""

    updates: Floats
    counts: Ints
    clients: int = 0


class _BeginningSums(NamedTuple):
    """n sums that begin in a round, with their lists in the recorded order (n, k), and as they are seen."""

    round: int
    sums: list[_ListSum]
    shown: Ints
    query: NDArray[np.str_]
    view: View
    full: View


class CountTask(MessageTask[CountEvidence]):
    """How many of the clients who saw the same list clicked each document, from the sum of their updates.

    The score of a document is the estimate. Attacks on single messages are refused.
    """

    name: ClassVar[str] = "counts"

    def __init__(self, attacks: Sequence[Attack], setting: JudgeSetting) -> None:
        super().__init__(attacks, setting)
        if self.observer.header.kind == "masked":
            raise UsageError(
                "view aggregate: the messages are masked one by one; expected a chain without "
                "secure-aggregation, whose sums this view stands for"
            )
        self._sums: dict[bytes, _ListSum] = {}
        self._new: dict[int, _ListSum] = {}
        self._seen: list[RoundView] = []
        self._begun: list[_BeginningSums] = []

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        """Add the round's updates to their sums; views are wanted of a round in which sums begin."""
        if not super().begin(record, truth):
            return False
        self._seen, self._new = [], {}
        model = record.parameters if self.observer.header.kind == "model" else 0.0
        if isinstance(record, SummedRound):
            return self._begin_round(record, truth, model)
        reason = why_not_one_list(record, self.observer.header)
        if reason is not None:
            raise UsageError(f"view aggregate: {reason}")
        P, k = record.parameters.size, record.shown.shape[1]
        for row in np.flatnonzero(record.survivors).tolist():
            # What the clients of one sum have in common.
            asked = record.part[row : row + 1].tobytes() + record.query[row : row + 1].tobytes()
            key = bytes(asked + record.shown[row].tobytes() + record.parameters.tobytes())
            if key not in self._sums:
                self._sums[key] = self._new[row] = _ListSum(np.zeros(P), np.zeros(k, dtype=np.int64))
            total = self._sums[key]
            # In float64: a sum of many float32 messages would lose digits that clicks are read from.
            total.updates += record.messages[row].astype(np.float64) - model
            total.counts += truth.clicks[row]
            total.clients += 1
        return bool(self._new)

    def _begin_round(self, record: SummedRound, truth: RoundTruth, model: Floats | float) -> bool:
        if not record.of_one_list:
            if not self.session.refused:
                self.session.refuse_all(
                    f"the clients of round {record.round} saw different lists; it counts clicks on one list"
                )
            return False
        update = record.messages[0].astype(np.float64) - model
        counts = truth.clicks.sum(axis=0)
        self._new[0] = _ListSum(update, np.asarray(counts, dtype=np.int64), record.clients)
        return True

    def see(self, seen: RoundView) -> None:
        self._seen.append(seen)

    def checked(self, attack: Attack, view: View, answer: Inference) -> Floats:
        """The estimate for each document, (n, k)."""
        return answer.scores[:, 0]

    def judged(self, answers: Mapping[str, Floats]) -> None:
        """Keep the sums that begin in the round: later rounds may add to them."""
        if self._new:
            record, rows = self.record, np.array(list(self._new))
            view, full = (
                with_lists(whole_round(views), rows, rows[:, np.newaxis])
                for views in ([seen.view for seen in self._seen], [seen.full for seen in self._seen])
            )
            query = query_names(record, self.observer.header, self.observer.collection)[rows]
            sums = list(self._new.values())
            self._begun.append(_BeginningSums(record.round, sums, record.shown[rows], query, view, full))
            self._seen = []

    def evidence(self) -> CountEvidence:
        """Evidence on all sums; none where the clients of a round saw different lists."""
        if not self._begun and self.session.refused:
            return CountEvidence(refused=self.session.refused)
        self.pieces = [self._judged(begun) for begun in self._begun]
        return super().evidence()

    def _judged(self, begun: _BeginningSums) -> CountEvidence:
        clients, counts, updates = (
            np.array([getattr(each, name) for each in begun.sums])
            for name in ("clients", "counts", "updates")
        )
        stated = knowledge_of(self.observer.header).noise  # of a message; the attack adds it up
        view, full = (
            replace(
                _with_noise(seen, stated),
                observer="aggregate",
                kind="update",
                messages=updates,
                clients=clients,
                senders=None,
            )
            for seen in (begun.view, begun.full)
        )
        self.ask(view, begun.round, f"sums/{begun.round}")
        said = self.session.collect()
        return CountEvidence(
            query=begun.query,
            clients=clients,
            shown=begun.shown,
            counts=counts,
            estimates={label: _in_order(rows, view.shown[:, 0], begun.shown) for label, rows in said.items()},
            baselines=dict(_baselines(full, counts)),
            refused=dict(self.session.refused),
        )


def _with_noise(view: View, noise: str | None) -> View:
    """The view with another noise law, unless its observer does not know the noise."""
    known = view.knowledge
    return view if known.noise in (None, noise) else replace(view, knowledge=known.having(noise=noise))


def _in_order(values: Floats, seen: Ints, recorded: Ints) -> Floats:
    """Values (L, k) of documents as they were seen, in the order in which the same ones were recorded."""
    out = np.empty_like(values)
    sorted_values = np.take_along_axis(values, np.argsort(seen, axis=1, kind="stable"), axis=1)
    np.put_along_axis(out, np.argsort(recorded, axis=1, kind="stable"), sorted_values, axis=1)
    return out


def _baselines(view: View, counts: Ints) -> Iterator[tuple[str, Floats]]:
    """Estimates (L, k) without a message: the best constant rate in hindsight, and what is usual."""
    clients, here = view.clients[:, np.newaxis], view.is_document[:, 0]
    rates = np.divide(counts, clients)[here]
    best = weighted_median(rates, np.ones(rates.size)) if rates.size else 0.0
    yield "constant", np.where(here, best * clients, 0.0)
    belief = view.knowledge.belief
    if belief is None:
        return
    k = here.shape[1]
    rates_by = {
        "position-prior": cascade_rates(*belief.by_position(k)),
        "position-prior:median": median_rates(belief, k),
    }
    if view.labels is not None:
        rates_by["relevance-prior"] = cascade_rates(*belief.by_grade(view.labels[:, 0]))
    for name, usual in rates_by.items():
        yield name, np.where(here, usual * clients, 0.0)
