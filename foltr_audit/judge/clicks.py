"""Judges attacks that ask for clicks: runs them on recorded messages and joins the truth to their answers.

Also: what a message can reveal to any attack, by its equations and the clicks that are lost in rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Attack
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference, Knowledge, View
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.inference.linear_systems import least_squares, roundings, singular_vectors, with_model_column
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.inference.replay import NEEDS, Replay, pair_coefficients, why_no_replay
from foltr_audit.judge.click_evidence import ClickEvidence, ClickGuesses, ClickPriors, click_priors
from foltr_audit.judge.observer import InteractionPlacement, Observer, RoundView, query_names
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.round_sums import SummedRound
from foltr_audit.judge.task import AttackSession, AttackTask, NothingToReadError
from foltr_audit.privacy.events import ClickRandomization
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceHeader
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.blas_threads import one_thread

_FLOOR = 1e-10  # singular values below this, relative to the largest, count as 0
_SURE = 8.0  # rounding errors (standard deviations) that a weight must exceed


class Revealed(NamedTuple):
    """What messages can reveal about each of their lists, to any attack.

    Attributes:
        told: documents that a message without noise reveals, bool (n, B, k): their column is no combination
            of the others' in the message, and they have no coefficient or one above rounding.
        rank: rank of the message's columns, int64 (n, B), the same for all its lists.
        unknowns: its documents, int64 (n, B), the same for all its lists.
    """

    told: Bools
    rank: Ints
    unknowns: Ints


def revealed(view: View, clicks: Bools, observed: Bools) -> Revealed:
    """What messages of a view can reveal if these documents (n, B, k) were clicked, and observed in pairs.

    Where a message has several lists, all are taken at the global model; the drift of the local model is
    ignored.
    """
    n, B, k = view.shown.shape
    unknowns = np.repeat(view.is_document.sum(axis=(1, 2))[:, np.newaxis], B, axis=1)
    if view.kind == "es":
        return Revealed(*_of_metrics(view, clicks), unknowns)
    if view.kind == "clicks":  # in clear, they reveal everything
        return Revealed(view.is_document, unknowns, unknowns)
    columns = view.columns
    if not columns.size:
        nothing = np.zeros((n, B), dtype=np.int64)
        return Revealed(np.zeros((n, B, k), np.bool_), nothing, nothing)
    # Columns get one size first. The floor is relative to the largest singular value, and documents with
    # small features would fall below it, although scaling a column does not change which are independent.
    sizes = np.max(np.abs(columns), axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(columns, sizes, out=np.zeros_like(columns), where=sizes > 0)
    _, s, Vt = singular_vectors(scaled)
    kept = s > _FLOOR * s.max(axis=1, keepdims=True, initial=0.0)
    inside = np.einsum("nr,nrm->nm", kept, Vt**2)  # 1 where a unit vector lies in the row space
    told: Bools = (inside > 1 - 1e-6).reshape(n, B, k) & view.is_document
    rank = np.broadcast_to(kept.sum(axis=1)[:, np.newaxis], (n, B)).astype(np.int64)
    if all(view.knowledge.has(name) for name in NEEDS) and why_no_replay(view) is None:
        known = columns if view.knowledge.clip is None else with_model_column(view)
        fit = least_squares(known, view.click_updates, roundings(view), view.feature_resolution)
        errors = fit.errors[:, : B * k].reshape(n, B, k)
        faintest, replay = _SURE * errors / (view.knowledge.learning_rate or 1.0), Replay(view)
        for b in range(B):
            weights = replay.weights(view.parameters, np.arange(n), b)
            sent = np.abs(pair_coefficients(weights, clicks[:, b], observed[:, b])) > faintest[:, b]
            known_weights = np.asarray(weights.any(axis=(1, 2)))[:, np.newaxis]
            told[:, b] &= ~observed[:, b] | sent | ~known_weights
    return Revealed(told, rank, unknowns)


def _of_metrics(view: View, clicks: Bools) -> tuple[Bools, Ints]:
    """Online metrics: a single one reveals its list, with MaxRR down to the first click.

    A mean of several metrics counts as revealing nothing. The rank counts the metrics that a message has.
    """
    B = view.shown.shape[1]
    there = view.is_document.any(axis=2)
    count = np.where(there, np.arange(1, B + 1), 0).max(axis=1, initial=0)
    half = (count + 1) // 2 if view.knowledge.antithetic else count
    first = np.arange(B) < half[:, np.newaxis]
    alone = np.where(first, half[:, np.newaxis], (count - half)[:, np.newaxis]) == 1
    told = view.is_document & alone[..., np.newaxis]
    if view.knowledge.metric != "dcg":
        told &= np.cumsum(clicks, axis=2) - clicks == 0
    metrics = (half > 0).astype(np.int64) + (count > half)
    return told, np.repeat(metrics[:, np.newaxis], B, axis=1)


class RoundAnswers(NamedTuple):
    """What attacks answered about all interactions of a round, and why others could not run, by label."""

    guessed: dict[str, ClickGuesses]
    refused: dict[str, str]


def infer_round(
    record: RoundRecord, observer: Observer, attacks: Sequence[Attack], streams: Streams
) -> RoundAnswers:
    """Each attack's answer for every interaction of a round."""
    session = AttackSession(attacks, streams)
    for seen in observer.views(record):
        for attack, answer in session.answers_to(seen, record.round):
            session.keep(attack, _guesses(seen, answer))
    return _collected(session, InteractionPlacement.of(record))


def _guesses(seen: RoundView, answer: Inference, bits: Floats | None = None) -> ClickGuesses:
    any_click = answer.any_click
    if any_click is None:
        any_click = np.where(seen.view.is_document, answer.scores, -np.inf).max(axis=2, initial=-np.inf)
    scores, guess = seen.restored(answer.scores), seen.restored(answer.guess)
    return ClickGuesses(scores=scores, guess=guess, any_click=any_click, surprisal=bits)


def _collected(session: AttackSession, placement: InteractionPlacement) -> RoundAnswers:
    found: dict[str, ClickGuesses] = {}
    for label, kept in session.collect().items():
        whole = kept.at(placement.rows)
        silent = whole.surprisal is None or np.isnan(whole.surprisal).all()
        found[label] = replace(whole, surprisal=None) if silent else whole
    return RoundAnswers(found, dict(session.refused))


class _ClickSurprisals:
    """How surprising the true clicks on each list of a round are, before and after its message, in bits."""

    def __init__(self, record: RoundRecord, truth: RoundTruth, header: TraceHeader) -> None:
        self.placement = InteractionPlacement.of(record)
        self.clicks = self.placement.spread(truth.clicks, False)
        self._header = header

    def after(self, seen: RoundView, answer: Inference) -> Floats:
        """-log2 of the probability that an attack gave the true clicks on each list, (n, B); else NaN."""
        clicks = self.clicks[seen.rows]
        if seen.order is not None:
            clicks = np.take_along_axis(clicks, seen.order, axis=2)
        if answer.patterns is None:
            return np.full(clicks.shape[:2], np.nan)
        number = (clicks @ (1 << np.arange(clicks.shape[2])))[..., np.newaxis]
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log2(np.take_along_axis(answer.patterns, number, axis=2)[..., 0]))

    def before(self, rows: slice, view: View) -> Floats:
        """-log2 of the probability of each list's clicks before its message, given the grades, (n, B)."""
        clicks = self.clicks[rows]
        bits = np.full(clicks.shape[:2], np.nan)
        if view.knowledge.belief is None or view.labels is None or self._header.intents > 1:
            return bits  # under several intents grades alone do not say how a user clicks
        messages, b = (each.ravel() for each in np.indices(bits.shape))
        found = PatternDecoder(view, "relevance").log_prior_of(messages, b, clicks[messages, b])
        return np.asarray(-found.reshape(bits.shape) / np.log(2.0))

    def is_exact(self, attack: Attack, view: View) -> bool:
        """Whether the patterns that an attack weighs in a view have their true posterior."""
        return _knows_all_steps(self._header, view.knowledge) and attack.exact_posterior(view)


def _knows_all_steps(header: TraceHeader, known: Knowledge) -> bool:
    """Whether an observer knows how users click, and what every defense does: a clip, or draws of a law."""
    chain, acts = header.knowledge.get("defense"), NoiseDeclaration.of(header).acts or ()
    if not isinstance(chain, list) or known.noise is None or header.intents > 1:
        return False
    balls = int(known.clip is not None)
    # A clip scales and bounds messages. How another link scales them is not stated.
    if sum(act.kind == "reduction" for act in acts) > 2 * balls:
        return False
    laws = [law for law in parts(known.noise) if law != "none"]
    laws += [act.text for act in acts if isinstance(act.event, ClickRandomization)]
    return len([link for link in chain if link != NO_DEFENSE]) == len(laws) + balls


def _knows_clips(header: TraceHeader, truth: RoundTruth) -> bool:
    """Whether the truth says which steps were clipped: another system that declares no clip may not know."""
    if not truth.knows_clips:
        return False
    return bool(header.spec_hash) or "clip_norm" in header.knowledge or bool(truth.clipped.any())


class ClickTask(AttackTask[ClickEvidence]):
    """Which shown documents were clicked, with what any attack could find out about them."""

    name: ClassVar[str] = "clicks"

    _surprisals: _ClickSurprisals
    _inexact: set[str]
    _observed: Bools
    _revealed: list[Revealed]
    _before: list[Floats]
    _priors: list[ClickPriors]

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        wanted, header = super().begin(record, truth), self.observer.header
        self._surprisals = _ClickSurprisals(record, truth, header)
        self._revealed, self._before, self._priors, self._inexact = [], [], [], set()
        self._observed = record.shown >= 0
        if header.holds_models:
            last = header.knowledge.get("pairs") == "last-click+1"
            self._observed = observed_documents(truth.clicks, self._observed, only_observed=last)
        return wanted

    def see(self, seen: RoundView) -> None:
        surprisals = self._surprisals
        observed = surprisals.placement.spread(self._observed, False)[seen.rows]
        with one_thread():  # attacks share decompositions with it
            self._revealed.append(revealed(seen.full, surprisals.clicks[seen.rows], observed))
        self._before.append(surprisals.before(seen.rows, seen.full))
        self._priors.append(click_priors(seen.full, self.observer.header.intents))
        for attack, answer in self.session.answers_to(seen, self.record.round):
            self.session.keep(attack, _guesses(seen, answer, surprisals.after(seen, answer)))
            if answer.patterns is None or not surprisals.is_exact(attack, seen.view):
                self._inexact.add(attack.label)

    def end(self) -> None:
        """Put the truth next to the answers on the round, also on one without messages."""
        record, truth, header = self.record, self.truth, self.observer.header
        at, L = self._surprisals.placement.rows, len(truth.clicks)
        found = Revealed(np.zeros(record.shown.shape, np.bool_), *np.zeros((2, L), dtype=np.int64))
        if self._revealed:
            found = Revealed(*(np.concatenate(arrays)[at] for arrays in zip(*self._revealed, strict=True)))
        answers, groups = _collected(self.session, self._surprisals.placement), self.setting.groups
        known = np.ones(len(truth.clicks), np.bool_) if truth.known is None else truth.known
        everything = ClickEvidence(
            query=query_names(record, header, self.observer.collection),
            message=record.origins if isinstance(record, SummedRound) else record.slot,
            shown=record.shown,
            clicks=truth.clicks,
            observed=self._observed,
            told=found.told,
            rank=found.rank,
            unknowns=found.unknowns,
            guessed=answers.guessed,
            baselines=frozenset(attack.label for attack in self.session.attacks if attack.baseline),
            probabilities=frozenset(one.label for one in self.session.attacks if one.probabilities),
            surprisal=np.concatenate(self._before)[at] if self._before else np.empty(0),
            priors=join_pieces(self._priors).at(at) if self._priors else ClickPriors.unknown((0, 0)),
            exact=frozenset(answers.guessed) - self._inexact,
            same_message=header.holds_models,
            group=groups.of_clients(truth.clients)[record.slot],
            groups=groups.names,
            refused=answers.refused,
            steps=int(known.sum()) if _knows_clips(header, truth) else 0,
            clipped=int(truth.clipped[known].sum()) if truth.knows_clips else 0,
            unknown=int((~known).sum()),
        )
        self.pieces.append(everything if known.all() else everything.at(known))

    def evidence(self) -> ClickEvidence:
        if not self.pieces:
            raise NothingToReadError(
                "trace: it holds no round in which a message arrived or a sum was opened"
            )
        return super().evidence()
