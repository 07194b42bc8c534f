"""Rows of attacks on clicks, and of whose update each change of the global model is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.calibration import ProbabilityCalibration, calibration, information
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.promises import NO_CEILINGS, ClickCeilings, any_click_ceiling
from foltr_audit.judge.published_models import SingledOut
from foltr_audit.judge.scoring import METRICS, AttackScorer, AttackScores, any_click_scores
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.base import Setting
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools
from foltr_audit.utils.rows import ResultRow, column

# --- rows of attacks on clicks ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AttackPlace(ResultRow):
    """What was attacked.

    Attributes:
        click_model: how the attacked users click.
        setting: what was run.
        view: what the server sees, as in `AttackSpec.view`.
    """

    click_model: str
    setting: Setting = column(embedded=True)
    view: str = "individual"


class OfAttack:
    """What every row of an attack can be asked."""

    where: AttackPlace

    @property
    def setting(self) -> Setting:
        """What was run."""
        return self.where.setting

    @property
    def sees(self) -> str:
        return self.where.setting.sees or ""

    @property
    def eps_claimed(self) -> float:
        return self.where.setting.eps_claimed


@dataclass(frozen=True, kw_only=True)
class AttackMetrics(ResultRow):
    """How much one guesser reads in judged lists; metrics as in `judge.scoring.METRICS`.

    Attributes:
        lists: lists with a click, which are judged; `skipped` have none, in `all_clicked` all or nothing was
            clicked.
        queries: different queries of the judged lists.
        unclicked_documents: a false positive rate among them moves in steps of `finest_fpr`.
        clipped: share of the local steps that were clipped; NaN where that is not known.
        precision_undefined: lists without a guess; they do not count in the mean precision.
        unknown: further lists, whose clicks are not known and which are not judged.
    """

    INTERVALS_LAST: ClassVar[bool] = True

    lists: int
    skipped: int
    all_clicked: int
    queries: int
    unclicked_documents: int
    finest_fpr: float | None
    clipped: float
    accuracy: Estimate
    balanced_accuracy: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    exact: Estimate
    auc: Estimate
    tpr_at_1: Estimate
    tpr_at_01: Estimate
    accuracy_identifiable: Estimate
    exact_message: Estimate
    precision_undefined: int
    unknown: int = 0


@dataclass(frozen=True, kw_only=True)
class AttackRow(ResultRow, OfAttack):
    """The results of one guesser, and the most that any attack can reach on the same lists."""

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    found: AttackMetrics = column(embedded=True)
    ceiling: ClickCeilings = column("ceiling_", embedded=True, default=NO_CEILINGS)


@dataclass(frozen=True, kw_only=True)
class PromiseRow(ResultRow, OfAttack):
    """What is proven for the attacked messages.

    Attributes:
        where: what was attacked.
        about: what the proof protects, in words.
        unit: what two neighbouring inputs differ in.
        proof_sees: what the observer of the proof sees.
        rounds: rounds of messages that the proof covers.
        eps_proven: the proven epsilon at `delta`; infinite where nothing is proven.
        delta: 0 where a pure bound is the best one.
        how: how it was proven, or why nothing is.
        auc: the most that any attack can reach when it tells two neighbouring inputs apart.
    """

    where: AttackPlace = column(embedded=True)
    about: str
    unit: str
    proof_sees: str
    rounds: int
    eps_proven: float
    delta: float
    how: str
    auc: float = column("ceiling_auc")

    @classmethod
    def of(cls, promise: ProvenPromise, where: AttackPlace, about: str) -> PromiseRow:
        upper, situation = promise.upper, promise.situation
        return cls(
            where=where,
            about=about,
            unit=situation.unit,
            proof_sees=sees(situation.view),
            rounds=situation.rounds,
            eps_proven=upper.epsilon,
            delta=upper.delta,
            how=upper.how,
            auc=promise.curve.auc,
        )


@dataclass(frozen=True, kw_only=True)
class AnyClickRow(ResultRow, OfAttack):
    """How well an attack tells whether a list has any click, over all lists.

    Attributes:
        base_rate: the accuracy of always saying yes.
        ceiling_auc: the largest AUC of any attack.
    """

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    lists: int
    lists_with_click: int
    queries: int
    auc: Estimate
    accuracy: Estimate
    base_rate: Estimate
    ceiling_auc: float = math.nan


@dataclass(frozen=True, kw_only=True)
class CalibrationRow(ResultRow, OfAttack):
    """How well an attack's probabilities are calibrated, over all lists."""

    method: str
    baseline: bool
    where: AttackPlace = column(embedded=True)
    lists: int
    found: ProbabilityCalibration = column(embedded=True)


@dataclass(frozen=True, kw_only=True)
class IdentifiabilityRow(ResultRow, OfAttack):
    """What the messages can reveal at all, whatever attack reads them.

    Ranks and unknowns are those of messages: equations that are no combination of others, and documents.
    Shares are of all shown documents: `not_observed` were in no pair, `not_told` are combinations of others
    in their message or drown in its rounding, `identifiable` are told and in no list of which all or
    nothing was clicked.
    """

    where: AttackPlace = column(embedded=True)
    lists: int
    all_clicked: int
    without_click: int
    documents: int
    not_observed: float | None
    not_told: float | None
    identifiable: float | None
    messages: int
    rank_mean: float | None
    rank_min: int | None
    unknowns_mean: float | None
    full_rank: float | None


@dataclass(frozen=True, kw_only=True)
class InformationRow(ResultRow, OfAttack):
    """How many bits of a list an attack that weighs click patterns learns; see `MutualInformation`."""

    method: str
    baseline: bool = False
    where: AttackPlace = column(embedded=True)
    lists: int
    queries: int
    bits: Estimate
    entropy: Estimate
    share: Estimate
    exact: bool = column("exact_posterior")
    bias_bound: float
    impossible: int
    wrong_prior: int


@dataclass(frozen=True, kw_only=True)
class QueryListRow(ResultRow, OfAttack):
    """One attacked list of a named query, and what an attack says of it.

    `list` counts the attacked lists of the setting from 0, `shown` holds each document's position inside
    its query from 0, and `clicked`, `guessed` and `scores` go with it. A query without an attacked list has
    one row without method and list.
    """

    query: str
    method: str | None
    baseline: bool
    where: AttackPlace = column(embedded=True)
    list: int | None
    message: int | None
    shown: tuple[int, ...] = ()
    clicked: tuple[bool, ...] = ()
    guessed: tuple[bool, ...] = ()
    scores: tuple[float, ...] = ()
    exact: bool | None = None


@dataclass(frozen=True, kw_only=True)
class RefusedRow(ResultRow, OfAttack):
    """An attack that could not run, and why."""

    method: str
    where: AttackPlace = column(embedded=True)
    reason: str


# --- from evidence to rows -------------------------------------------------------------------------


def scored(evidence: ClickEvidence, streams: Streams) -> Iterator[tuple[str, bool, AttackMetrics]]:
    """Method, whether it is a baseline, and metrics of every guesser on judged lists, baselines first."""
    scorer = AttackScorer(evidence, streams)
    for scores in scorer.scores():
        baseline = scores.method.startswith("random:") or scores.method in evidence.baselines
        yield scores.method, baseline, _metrics(evidence, scorer, scores)


def _metrics(evidence: ClickEvidence, scorer: AttackScorer, scores: AttackScores) -> AttackMetrics:
    judged, metrics = scorer.evidence, scores.metrics
    return AttackMetrics(
        lists=int(judged.query.size),
        skipped=int(evidence.query.size - judged.query.size),
        all_clicked=int(judged.ties.sum()),
        queries=int(np.unique(judged.query).size),
        unclicked_documents=scorer.unclicked,
        finest_fpr=1 / scorer.unclicked if scorer.unclicked else None,
        clipped=evidence.clipped / evidence.steps if evidence.steps else float("nan"),
        **{name: metrics.get(name, UNKNOWN) for name in METRICS},
        precision_undefined=scores.precision_undefined,
        unknown=evidence.unknown,
    )


def any_click_rows(
    evidence: ClickEvidence, where: AttackPlace, resamples: QueryBootstrap, promise: ProvenPromise | None
) -> Iterator[AnyClickRow]:
    """One row per attack; `resamples` of the lists' queries."""
    ceiling = any_click_ceiling(evidence, promise)
    rate = resamples.share(evidence.has_click.astype(np.float64))
    for scores in any_click_scores(evidence, resamples):
        yield AnyClickRow(
            method=scores.method,
            baseline=scores.method in evidence.baselines,
            where=where,
            lists=int(evidence.query.size),
            lists_with_click=int(evidence.has_click.sum()),
            queries=int(resamples.names.size),
            auc=scores.auc,
            accuracy=scores.accuracy,
            base_rate=rate,
            ceiling_auc=ceiling,
        )


def calibration_rows(
    evidence: ClickEvidence, where: AttackPlace, resamples: QueryBootstrap
) -> Iterator[CalibrationRow]:
    """One row per attack whose scores are probabilities; `resamples` of the lists' queries."""
    for label in evidence.guessed:
        if label not in evidence.probabilities:
            continue
        yield CalibrationRow(
            method=label,
            baseline=label in evidence.baselines,
            where=where,
            lists=int(evidence.query.size),
            found=calibration(evidence, label, resamples),
        )


def identifiability_row(evidence: ClickEvidence, where: AttackPlace) -> IdentifiabilityRow:
    """What the messages of judged lists can reveal."""
    documents, has_click = evidence.is_document, evidence.has_click
    _, first = np.unique(evidence.message, return_index=True)
    rank, unknowns = evidence.rank[first], evidence.unknowns[first]
    return IdentifiabilityRow(
        where=where,
        lists=int(evidence.query.size),
        all_clicked=int((evidence.ties & has_click).sum()),
        without_click=int((~has_click).sum()),
        documents=int(documents.sum()),
        not_observed=_share(~evidence.observed, documents),
        not_told=_share(~evidence.told, documents),
        identifiable=_share(evidence.identifiable, documents),
        messages=int(first.size),
        rank_mean=float(rank.mean()) if first.size else None,
        rank_min=int(rank.min()) if first.size else None,
        unknowns_mean=float(unknowns.mean()) if first.size else None,
        full_rank=float((rank == unknowns).mean()) if first.size else None,
    )


def information_rows(
    evidence: ClickEvidence, where: AttackPlace, resamples: QueryBootstrap
) -> Iterator[InformationRow]:
    """One row per attack, over all lists; `resamples` of their queries. Baselines read no message."""
    for measured in information(evidence, resamples):
        if measured.method not in evidence.baselines:
            yield InformationRow(where=where, queries=int(resamples.names.size), **vars(measured))


def query_rows(evidence: ClickEvidence, where: AttackPlace, queries: Sequence[str]) -> Iterator[QueryListRow]:
    """One row per attacked list of the named queries and attack."""
    for name in queries:
        lists = np.flatnonzero(evidence.query == name).tolist()
        for number in lists:
            for label in evidence.guessed:
                yield _query_row(evidence, where, number, label)
        if not lists:
            yield QueryListRow(query=name, method=None, baseline=False, where=where, list=None, message=None)


def _query_row(evidence: ClickEvidence, where: AttackPlace, number: int, label: str) -> QueryListRow:
    documents, answer = evidence.is_document[number], evidence.guessed[label]
    clicked, guessed = evidence.clicks[number, documents], answer.guess[number, documents]
    return QueryListRow(
        query=str(evidence.query[number]),
        method=label,
        baseline=label in evidence.baselines,
        where=where,
        list=number,
        message=int(evidence.message[number]),
        shown=tuple(evidence.shown[number, documents].tolist()),
        clicked=tuple(clicked.tolist()),
        guessed=tuple(guessed.tolist()),
        scores=tuple(answer.scores[number, documents].tolist()),
        exact=bool(np.array_equal(clicked, guessed)),
    )


def _share(which: Bools, among: Bools) -> float | None:
    count = int(among.sum())
    return float((which & among).sum() / count) if count else None


# --- changes of the published model ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PublishedChangeRow(ResultRow, OfAttack):
    """What the observer of view `client` can tell of whose update each change is; see `SingledOut`."""

    where: AttackPlace = column(embedded=True)
    found: SingledOut = column(embedded=True)

    @property
    def text(self) -> str:
        found = self.found
        still = f", and did not in {found.unchanged:,}" if found.unchanged else ""
        several = f", those of several clients in {found.several:,}" if found.several else ""
        return (
            f"the global model changed in {found.rounds:,} rounds{still}; the change was one client's "
            f"message in {found.published:,} of them; it fits one client's lists in "
            f"{found.singled_out:,}{several}, and names the right client in {found.right:,}"
        )


def published_rows(found: SingledOut | None, where: AttackPlace) -> tuple[PublishedChangeRow, ...]:
    """The row of a view `client`; none of other views."""
    return () if found is None else (PublishedChangeRow(where=where, found=found),)
