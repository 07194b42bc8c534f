"""Attack metrics with bootstrap intervals over queries: ROC curves, random guessing, groups of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import product
from math import comb, floor, isnan
from typing import Any, Literal, NamedTuple

import numpy as np

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.results import UNKNOWN, AttackRecord, Estimate, Interval
from foltr_audit.judge.bootstrap import QueryBootstrap, QueryMetric, least_of
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

FALSE_POSITIVES = {"tpr_at_1": 100, "tpr_at_01": 1000}
"""The false positive rates at which true positives are reported, one in N: 1 % and 0.1 %."""

_ENOUGH = 2  # false positives that a level must allow for an interval; see `true_positives`


class ScoreRanking(NamedTuple):
    """D items in rising order of score: the truth, and numbers of the distinct score and the query, (D,)."""

    positive: Bools
    tie: Ints
    cluster: Ints

    @classmethod
    def of(cls, scores: Floats, positive: Bools, cluster: Ints) -> ScoreRanking:
        """Items (D,) in order; scores may be infinite, but not NaN."""
        order = np.argsort(scores, kind="stable")
        ranked = scores[order]
        # Cut to the number of items: without any, the leading False would be one too many.
        tie = np.cumsum(np.concatenate([[False], ranked[1:] != ranked[:-1]])[: ranked.size])
        return cls(positive[order], tie, np.ascontiguousarray(cluster[order]))

    def auc(self, resamples: QueryBootstrap) -> QueryMetric:
        """Area under the ROC curve, ties one half; NaN where one class is missing.

        A query has influence by its positive items and the pairs that they win, and by its negative ones
        (Obuchowski 1997, "Nonparametric analysis of clustered ROC curve data"). As many queries inform it as
        have items of the rarer class.
        """
        positives, negatives = (self._by_query(resamples, which) for which in (self.positive, ~self.positive))
        both = float(positives.sum()), float(negatives.sum())
        pairs = both[0] * both[1]
        if not pairs:
            return QueryMetric(np.nan, np.full(positives.size, np.nan), 0.0, 1.0, resamples.streams)
        below, above = (self._beside(which) for which in (~self.positive, self.positive))
        wins = self._by_query(resamples, self.positive, below)
        losses = self._by_query(resamples, ~self.positive, both[0] - above)
        area = float(wins.sum()) / pairs
        influence = (wins + losses - area * (positives * both[1] + negatives * both[0])) / pairs
        counted = min(int((items > 0).sum()) for items in (positives, negatives))
        influence[positives + negatives == 0] = np.nan
        return QueryMetric(area, influence, 0.0, 1.0, resamples.streams, counted=counted)

    def _beside(self, which: Bools) -> Floats:
        """How many of some items lie below each item, those of its own score counted half, float64 (D,)."""
        count = np.concatenate([[0], np.cumsum(which)])
        ends = np.searchsorted(self.tie, self.tie, "left"), np.searchsorted(self.tie, self.tie, "right")
        return np.asarray((count[ends[0]] + count[ends[1]]) / 2.0)

    def _by_query(self, resamples: QueryBootstrap, which: Bools, values: Floats | None = None) -> Floats:
        """The number of some items of each query, or the sum of their values, float64 (Q,)."""
        weights = None if values is None else values[which]
        found = np.bincount(self.cluster[which], weights, minlength=resamples.names.size)
        return found.astype(np.float64)

    def true_positives(self, resamples: QueryBootstrap) -> dict[str, Estimate]:
        """The largest TPR whose FPR does not exceed each of `FALSE_POSITIVES`.

        Items of equal score are named together or not at all, since no threshold separates them. With N
        unclicked items the FPR moves in steps of 1/N: with fewer than 100 (1,000) of them, it is the TPR
        before the first false positive (Carlini et al. 2022, "Membership inference attacks from first
        principles", section III, on why to look there). There is no interval where a level allows fewer than
        two false positives, since resampling then understates the uncertainty (in simulations 95 % intervals
        covered the truth 38 to 93 times in 100, otherwise 92 to 97 times).

        The threshold depends on the queries too, which an influence does not tell: each end is the farther
        one of the middle 95 % of resamples, and of the interval at the threshold that was found.
        """
        clicked, unclicked = (self._by_query(resamples, which) for which in (self.positive, ~self.positive))
        first = np.searchsorted(self.tie, self.tie, "left")
        alarms = unclicked.sum() - np.concatenate([[0], np.cumsum(~self.positive)])[first]
        draws = cache(lambda: self._rates(resamples.weights))
        estimates: dict[str, Estimate] = {}
        for level, (name, one_in) in enumerate(FALSE_POSITIVES.items()):
            if not clicked.any() or not unclicked.any():
                estimates[name] = UNKNOWN
                continue
            allowed = unclicked.sum() // one_in
            hits = self._by_query(resamples, self.positive & (alarms <= allowed))
            rate = float(hits.sum() / clicked.sum())
            influence = np.where(clicked > 0, (hits - rate * clicked) / clicked.sum(), np.nan)
            fixed = QueryMetric(rate, influence, 0.0, 1.0, resamples.streams)
            ends = partial(_farther, fixed, draws, level) if allowed >= _ENOUGH else None
            estimates[name] = Estimate(rate, ends)
        return estimates

    def _rates(self, weights: Ints) -> Floats:
        """The TPR at each level under each row of weights (R, Q); NaN where one class is missing."""
        from foltr_audit.kernels.metrics import weighted_hits

        clicked, unclicked = (self._totals(weights, which) for which in (self.positive, ~self.positive))
        allowed = unclicked[:, np.newaxis] // np.array(list(FALSE_POSITIVES.values()))
        hits = weighted_hits(self.positive, self.tie, self.cluster, weights, allowed).astype(np.float64)
        both = ((clicked > 0) & (unclicked > 0))[:, np.newaxis]
        return np.divide(hits, clicked[:, np.newaxis], out=np.full_like(hits, np.nan), where=both)

    def _totals(self, weights: Ints, which: Bools) -> Ints:
        """How many of some items each resample holds, int64 (R,)."""
        counts = np.bincount(self.cluster[which], minlength=weights.shape[1])
        return np.asarray(np.einsum("bq,q->b", weights, counts))


def _farther(fixed: QueryMetric, draws: Callable[[], Floats], level: int, tail: float) -> Interval | None:
    ends = fixed.ends(tail)
    if ends is None:
        return None
    low, high = np.nanquantile(draws()[:, level], [tail, 1.0 - tail])
    return min(float(low), ends[0]), max(float(high), ends[1])


METRICS = (
    *("accuracy", "balanced_accuracy", "precision", "recall", "f1", "exact", "auc"),
    *(*FALSE_POSITIVES, "accuracy_identifiable", "exact_message"),
)
"""Metrics of a row, all between 0 and 1, higher = more is leaked.

Means over lists with a click, except `auc` and the TPR at a FPR, which pool the documents of these lists,
and `exact_message`, a mean over messages with a click, all of whose lists must be guessed right.
"""

RANDOM_SIZES = (3, 4)
"""Sizes of the random guesses that are always shown (Pham 2022, table 4)."""

RANDOM = "random:k=mean"
"""The random guess that knows most: of the mean number of clicks."""

KNOWS_GRADES = "relevance-prior"
"""The guess of a server that has the grades of the documents; the other guesses use positions at most."""


Role = Literal["attack", "guess", "knows grades"]


def role_of(evidence: ClickEvidence, method: str) -> Role:
    """Whether a method attacks, guesses, or guesses by the grades of the documents."""
    if method.startswith("random:"):
        return "guess"
    if method not in evidence.baselines:
        return "attack"
    return "knows grades" if method == KNOWS_GRADES else "guess"


def list_metrics(
    tp: Floats, guessed: Floats, clicked: Floats, length: Floats, exact: Floats
) -> dict[str, Floats]:
    """Metrics of each list from its counts, all float64 (L,); NaN where a metric is undefined.

    Lists have at least one click. Where everything was clicked, balanced accuracy is the recall.
    """
    tn = length - guessed - clicked + tp
    unclicked = length - clicked
    recall = tp / clicked
    with np.errstate(invalid="ignore"):
        specificity = np.where(unclicked > 0, tn / unclicked, recall)
        precision = np.where(guessed > 0, tp / guessed, np.nan)
    return {
        "accuracy": (tp + tn) / length,
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": precision,
        "recall": recall,
        "f1": 2 * tp / (guessed + clicked),
        "exact": exact,
    }


class AttackScorer:
    """Scores every guesser on the same lists, those with a click, with the same resamples."""

    def __init__(self, evidence: ClickEvidence, streams: Streams) -> None:
        self.everything = evidence
        self.evidence = evidence.at(evidence.has_click)
        self.resamples = QueryBootstrap(self.evidence.query, streams)
        self.clicked = self.evidence.clicks.sum(axis=1).astype(np.float64)
        self.length = self.evidence.is_document.sum(axis=1).astype(np.float64)

    def records(self, ceiling: Mapping[str, float] | None = None) -> Iterator[AttackRecord]:
        """Random guessing first, then every attack in its order; metrics as in `METRICS`."""
        most = dict(ceiling or {})
        for size in RANDOM_SIZES:
            yield self._record(f"random:k={size}", self._random(float(size)), most)
        yield self._record(RANDOM, self._random(self.mean_clicks), most)
        for label in self.evidence.guessed:
            lists, documents = self.of_lists(label), self._rankings[label]
            metrics: dict[str, Estimate] = {
                name: self.resamples.share(values) for name, values in lists.items()
            }
            metrics |= {"auc": self._areas[label], **documents.true_positives(self.resamples)}
            undefined = int(np.isnan(lists["precision"]).sum())
            yield self._record(label, metrics | self._exact_messages(label), most, undefined)

    def _record(
        self, method: str, metrics: dict[str, Estimate], ceiling: dict[str, float], undefined: int = 0
    ) -> AttackRecord:
        """The record of a method; `undefined` lists without a guess do not count in the mean precision."""
        role, evidence = role_of(self.evidence, method), self.everything
        attack = make_if_known(Attack, method) if role == "attack" else None
        metrics = {name: metrics.get(name, UNKNOWN) for name in METRICS}
        more = dict[str, Any]()
        if role == "attack":
            guessed, above = self._beside_guesses(method)
            metrics, more = metrics | above, guessed
        return AttackRecord(
            task="clicks",
            method=method,
            role=role,
            strongest=attack is not None and attack.strongest,
            needs=frozenset() if attack is None else frozenset(attack.needs),
            counts={
                "lists": int(self.evidence.query.size),
                "skipped": int(evidence.query.size - self.evidence.query.size),
                "all_clicked": int(self.evidence.ties.sum()),
                "queries": int(self.resamples.names.size),
                "unclicked_documents": self.unclicked,
                "finest_fpr": 1 / self.unclicked if self.unclicked else None,
                "clipped": evidence.clipped / evidence.steps if evidence.steps else None,
                "precision_undefined": undefined,
                "unknown": evidence.unknown,
            },
            metrics=metrics,
            ceiling=ceiling,
            more=more,
        )

    @cached_property
    def _rankings(self) -> dict[str, ScoreRanking]:
        return {label: self.ranked(label) for label in self.evidence.guessed}

    @cached_property
    def _areas(self) -> dict[str, QueryMetric]:
        """The AUC of random guessing, and of every other guess and attack."""
        named = {label: documents.auc(self.resamples) for label, documents in self._rankings.items()}
        return {RANDOM: self.resamples.constant(0.5), **named}

    def _beside_guesses(self, method: str) -> tuple[dict[str, Any], dict[str, Estimate]]:
        """The best guess of each kind and its AUC, and how far that of an attack is above it.

        `guess` does not know the grades of documents, and `grades` does; None without such a guess.
        """
        best: dict[str, Any] = {}
        above: dict[str, Estimate] = {}
        for name, role in (("guess", "guess"), ("grades", "knows grades")):
            areas = {each: area for each, area in self._areas.items() if role_of(self.evidence, each) == role}
            first = max(areas, key=lambda each: areas[each].value, default=None)
            best |= {name: first, f"{name}_auc": None if first is None else areas[first].value}
            above[f"above_{name}"] = least_of([self._areas[method].minus(area) for area in areas.values()])
        return best, above

    @cached_property
    def mean_clicks(self) -> float:
        return float(self.clicked.mean()) if self.clicked.size else float("nan")

    @cached_property
    def unclicked(self) -> int:
        """Unclicked documents of the judged lists; a FPR is a multiple of 1 over this number."""
        return int((self.length - self.clicked).sum())

    def of_lists(self, label: str) -> dict[str, Floats]:
        """Metrics of an attack on each judged list, float64 (L,); NaN where a metric is undefined."""
        guess = self.evidence.guessed[label].guess & self.evidence.is_document
        right = guess == self.evidence.clicks
        tp = (guess & self.evidence.clicks).sum(axis=1).astype(np.float64)
        guessed = guess.sum(axis=1).astype(np.float64)
        exact = right.all(axis=1).astype(np.float64)
        return {
            **list_metrics(tp, guessed, self.clicked, self.length, exact),
            "accuracy_identifiable": self._identifiable(right.astype(np.float64)),
        }

    def ranked(self, label: str, lists: Bools | None = None) -> ScoreRanking:
        """An attack's scores of all shown documents of judged lists, or of some of them, bool (L,)."""
        which = self.evidence.is_document
        if lists is not None:
            which = which & lists[:, np.newaxis]
        cluster = np.broadcast_to(self.resamples.cluster[:, np.newaxis], which.shape)[which]
        return ScoreRanking.of(
            self.evidence.guessed[label].scores[which], self.evidence.clicks[which], cluster
        )

    def _identifiable(self, right: Floats) -> Floats:
        """How right each list's identifiable documents are (L,), from that of each document (L, k)."""
        known = self.evidence.identifiable
        count = known.sum(axis=1)
        total = np.where(known, right, 0.0).sum(axis=1)
        return np.asarray(np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0))

    @cached_property
    def _messages(self) -> tuple[Ints, Bools, QueryBootstrap] | None:
        """Number of each list's message, which messages have a click, and resamples of their first queries.

        None where no message holds several lists.
        """
        lists = self.everything
        _, first, number = np.unique(lists.message, return_index=True, return_inverse=True)
        if first.size == lists.message.size:
            return None
        counted = np.bincount(number, weights=lists.has_click, minlength=first.size) > 0
        queries = lists.query[first][counted]
        return number, counted, QueryBootstrap(queries, self.resamples.streams)

    def _exact_messages(self, label: str) -> dict[str, Estimate]:
        """Share of messages all of whose lists were guessed right, also those without a click."""
        if self._messages is None:
            return {}
        (number, counted, resamples), lists = self._messages, self.everything
        wrong = ((lists.guessed[label].guess & lists.is_document) != lists.clicks).any(axis=1)
        mistakes = np.bincount(number, weights=wrong, minlength=counted.size)
        return {"exact_message": resamples.share((mistakes[counted] == 0).astype(np.float64))}

    def _random(self, size: float) -> dict[str, Estimate]:
        """The expectation of naming `size` documents at random; between two whole sizes a mixture."""
        if not self.length.size:
            return {}
        metrics = {name: self.resamples.share(values) for name, values in self.random_lists(size).items()}
        rates = {"auc": 0.5, **{name: 1 / one_in for name, one_in in FALSE_POSITIVES.items()}}
        # Every ranking is equally likely, so these have no error.
        return {**metrics, **{name: self.resamples.constant(rate) for name, rate in rates.items()}}

    def random_lists(self, size: float) -> dict[str, Floats]:
        """The expectation of naming `size` documents at random in each judged list, float64 (L,)."""
        share = size - floor(size)
        low, high = self._whole_size(floor(size)), self._whole_size(floor(size) + 1)
        return {name: (1 - share) * low[name] + share * high[name] if share else low[name] for name in low}

    def _whole_size(self, size: int) -> dict[str, Floats]:
        guessed = np.minimum(float(size), self.length)
        tp = guessed * self.clicked / self.length
        longest = int(self.length.max(initial=0.0))
        right_at_once = np.array([1 / comb(n, min(size, n)) for n in range(longest + 1)])
        exact = np.where(guessed == self.clicked, right_at_once[self.length.astype(np.int64)], 0.0)
        named = (guessed / self.length)[:, np.newaxis]
        right = np.where(self.evidence.clicks, named, 1.0 - named)
        return {
            **list_metrics(tp, guessed, self.clicked, self.length, exact),
            "accuracy_identifiable": self._identifiable(right),
        }


def click_records(
    evidence: ClickEvidence, streams: Streams, ceiling: Mapping[str, float] | None = None
) -> Iterator[AttackRecord]:
    """What every guesser reads in judged lists, baselines first; metrics as in `METRICS`."""
    return AttackScorer(evidence, streams).records(ceiling)


def any_click_records(
    evidence: ClickEvidence, resamples: QueryBootstrap, ceiling: Mapping[str, float]
) -> Iterator[AttackRecord]:
    """How well every attack separates lists with a click from lists without one, in its order.

    Of all lists, also those that the published protocol leaves out. `auc` is undefined where all or no lists
    have a click; `accuracy` is how often "the guess names a document" is right, for probabilities "a click is
    more likely than none"; `base_rate` that of always saying yes.
    """
    has_click = evidence.has_click
    rate = resamples.share(has_click.astype(np.float64))
    for label, answer in evidence.guessed.items():
        predicted = (answer.guess & evidence.is_document).any(axis=1)
        if label in evidence.probabilities:
            predicted = answer.any_click > 0.5
        yield AttackRecord(
            task="any click",
            method=label,
            role=role_of(evidence, label),
            counts={
                "lists": int(evidence.query.size),
                "lists_with_click": int(has_click.sum()),
                "queries": int(resamples.names.size),
            },
            metrics={
                "auc": ScoreRanking.of(answer.any_click, has_click, resamples.cluster).auc(resamples),
                "accuracy": resamples.share((predicted == has_click).astype(np.float64)),
                "base_rate": rate,
            },
            ceiling=dict(ceiling),
        )


def identifiability(evidence: ClickEvidence) -> dict[str, Any]:
    """What messages can reveal at all, whatever attack reads them; None where there is none of something.

    Ranks and unknowns are those of messages: equations that are no combination of others, and documents.
    Shares are of all shown documents: `not_observed` were in no pair, `not_told` are combinations of others
    in their message or drown in its rounding, `identifiable` are told and in no list of which all or nothing
    was clicked.
    """
    documents, has_click = evidence.is_document, evidence.has_click
    _, first = np.unique(evidence.message, return_index=True)
    rank, unknowns = evidence.rank[first], evidence.unknowns[first]
    count = int(documents.sum())

    def share(which: Bools) -> float | None:
        return float((which & documents).sum() / count) if count else None

    return {
        "lists": int(evidence.query.size),
        "all_clicked": int((evidence.ties & has_click).sum()),
        "without_click": int((~has_click).sum()),
        "documents": count,
        "not_observed": share(~evidence.observed),
        "not_told": share(~evidence.told),
        "identifiable": share(evidence.identifiable),
        "messages": int(first.size),
        "rank_mean": float(rank.mean()) if first.size else None,
        "rank_min": int(rank.min()) if first.size else None,
        "unknowns_mean": float(unknowns.mean()) if first.size else None,
        "full_rank": float((rank == unknowns).mean()) if first.size else None,
    }


_OF_LIST = ("shown", "clicked", "guessed", "scores")


def named_lists(evidence: ClickEvidence, queries: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each attacked list of the named queries, and what each attack says of it.

    `list` counts the attacked lists of the setting from 0, `shown` holds each document's position inside its
    query from 0, and `clicked`, `guessed` and `scores` go with it. A query without an attacked list has one
    row without method and list.
    """
    for name in queries:
        lists = np.flatnonzero(evidence.query == name).tolist()
        if not lists:
            yield {"query": name, "baseline": False, **dict.fromkeys(_OF_LIST, ())}
        for number, (label, answer) in product(lists, evidence.guessed.items()):
            here = evidence.is_document[number]
            clicked, guessed = evidence.clicks[number, here], answer.guess[number, here]
            arrays = (evidence.shown[number, here], clicked, guessed, answer.scores[number, here])
            yield {
                "query": name,
                "method": label,
                "baseline": label in evidence.baselines,
                "list": number,
                "message": int(evidence.message[number]),
                **{column: array.tolist() for column, array in zip(_OF_LIST, arrays, strict=True)},
                "exact": bool(np.array_equal(clicked, guessed)),
            }


GROUP_METRICS = ("accuracy", "precision", "recall", "f1", "exact", "auc")
"""Metrics that are reported for each group, see `METRICS`."""

WORST_BY = ("auc", "f1")
"""Metrics that order groups by how hard they are hit: the AUC, which needs no threshold and does not depend
on how many documents a group clicks; where it ties or is undefined, F1."""


def group_records(evidence: ClickEvidence, streams: Streams) -> Iterator[AttackRecord]:
    """How much every guesser reads in the lists of each group of clients, hit hardest first.

    Random guessing of the mean number of clicks first, then every attack in its order; none where clients do
    not differ. Differences are to all groups' lists together, in the same resamples of queries; intervals are
    not widened for the choice of the first group.
    """
    if len(evidence.groups) < 2:
        return
    scorer = AttackScorer(evidence, streams)
    everybody = np.ones(scorer.evidence.query.size, dtype=np.bool_)
    for method in (RANDOM, *scorer.evidence.guessed):
        values: dict[str, Floats] = {}
        if method != RANDOM:
            values = scorer.of_lists(method)
        elif everybody.size:
            values = scorer.random_lists(scorer.mean_clicks)
        every = _metrics(scorer, method, values, everybody)
        groups = [_of_group(scorer, n, method, values, every) for n in range(len(evidence.groups))]
        for place, record in enumerate(sorted(groups, key=_hardest_first), start=1):
            yield record.model_copy(update={"place": place})


def _of_group(
    scorer: AttackScorer, number: int, method: str, values: dict[str, Floats], every: dict[str, QueryMetric]
) -> AttackRecord:
    """What a method reads in the lists of a group, next to each metric over all lists."""
    judged = scorer.evidence.group == number
    lists, mine = int(judged.sum()), _metrics(scorer, method, values, judged)
    return AttackRecord(
        task="clicks",
        method=method,
        role=role_of(scorer.evidence, method),
        group=scorer.everything.groups[number],
        counts={
            "lists": lists,
            "skipped": int((scorer.everything.group == number).sum()) - lists,
            "queries": int(np.unique(scorer.evidence.query[judged]).size),
        },
        metrics={name: mine[name] for name in GROUP_METRICS},
        everybody={name: every[name].value for name in GROUP_METRICS},
        differences={name: mine[name].minus(every[name]) for name in GROUP_METRICS},
    )


def _metrics(
    scorer: AttackScorer, method: str, values: dict[str, Floats], lists: Bools
) -> dict[str, QueryMetric]:
    """Each metric of some judged lists, bool (L,), from those of each list, float64 (L,)."""
    blank, resamples = np.full(lists.size, np.nan), scorer.resamples
    metrics = {
        name: resamples.share(np.where(lists, values.get(name, blank), np.nan)) for name in GROUP_METRICS
    }
    area = resamples.constant(0.5) if method == RANDOM else scorer.ranked(method, lists).auc(resamples)
    return metrics | {"auc": area}


def _hardest_first(record: AttackRecord) -> tuple[float, ...]:
    values = [record.metrics[name].value for name in WORST_BY]
    return tuple(float("inf") if isnan(value) else -value for value in values)
