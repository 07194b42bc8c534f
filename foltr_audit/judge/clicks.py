"""Judges attacks that ask for clicks: runs them on recorded messages and joins the truth to their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Attack
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import Inference, Knowledge, View
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge.attack_session import AttackSession
from foltr_audit.judge.click_evidence import ClickEvidence, ClickGuesses
from foltr_audit.judge.identifiability import Identifiability, identifiability, nothing_identifiable
from foltr_audit.judge.observer import Observer, RoundView
from foltr_audit.judge.pieces import join_pieces
from foltr_audit.judge.prior_probabilities import ClickPriors, click_priors
from foltr_audit.judge.round_sums import SummedRound
from foltr_audit.judge.task import AttackTask, NothingToReadError
from foltr_audit.judge.view_builder import InteractionPlacement, query_names
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.blas_threads import one_blas_thread


class RoundAnswers:
    """What attacks answer about the interactions of a round, collected view by view."""

    def __init__(
        self, record: RoundRecord, session: AttackSession, surprisals: _ClickSurprisals | None = None
    ) -> None:
        """Without `surprisals`, which hold the truth, no answer is weighed."""
        self._round, self._session, self._surprisals = record.round, session, surprisals
        self._at = InteractionPlacement.of(record).rows
        self._pieces: dict[str, list[ClickGuesses]] = {}
        self._inexact: set[str] = set()

    def add(self, seen: RoundView) -> None:
        """Run the attacks on one view of the round."""
        place, truth = f"{self._round}/{seen.rows.start}", self._surprisals
        for attack, answer in self._session.answers(seen.view, self._round, place):
            bits = None if truth is None else truth.after(seen, answer)
            self._pieces.setdefault(attack.label, []).append(_guesses(seen, answer, bits))
            if truth is None or answer.patterns is None or not truth.is_exact(attack, seen.view):
                self._inexact.add(attack.label)

    @property
    def refused(self) -> dict[str, str]:
        """Why an attack cannot run on this view, by label."""
        return dict(self._session.refused)

    @property
    def guessed(self) -> dict[str, ClickGuesses]:
        """Each attack's answers for all I interactions of the round, by label."""
        found = {}
        for label, pieces in self._pieces.items():
            if label not in self._session.refused:
                whole = join_pieces(pieces).at(self._at)
                silent = whole.surprisal is None or np.isnan(whole.surprisal).all()
                found[label] = replace(whole, surprisal=None) if silent else whole
        return found

    @property
    def exact(self) -> frozenset[str]:
        """Labels of the attacks that have weighed patterns by their true posterior."""
        return frozenset(self._pieces) - self._inexact


def infer_round(
    record: RoundRecord, observer: Observer, attacks: Sequence[Attack], streams: Streams
) -> RoundAnswers:
    """Each attack's answer for every interaction of a round."""
    answers = RoundAnswers(record, AttackSession(attacks, streams))
    for seen in observer.views(record):
        answers.add(seen)
    return answers


def _guesses(seen: RoundView, answer: Inference, bits: Floats | None) -> ClickGuesses:
    any_click = answer.any_click
    if any_click is None:
        any_click = np.where(seen.view.is_document, answer.scores, -np.inf).max(axis=2, initial=-np.inf)
    return ClickGuesses(
        scores=seen.restored(answer.scores),
        guess=seen.restored(answer.guess),
        any_click=any_click,
        surprisal=bits,
    )


class _ClickSurprisals:
    """How surprising the true clicks on each list of a round are, before and after its message, in bits."""

    def __init__(self, record: RoundRecord, truth: RoundTruth, header: TraceHeader) -> None:
        self._clicks = InteractionPlacement.of(record).spread(truth.clicks, False)
        self._header = header

    def after(self, seen: RoundView, answer: Inference) -> Floats:
        """-log2 of the probability that an attack gave the true clicks on each list, (n, B); else NaN."""
        clicks = self._clicks[seen.rows]
        if seen.order is not None:
            clicks = np.take_along_axis(clicks, seen.order, axis=2)
        if answer.patterns is None:
            return np.full(clicks.shape[:2], np.nan)
        number = (clicks @ (1 << np.arange(clicks.shape[2])))[..., np.newaxis]
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log2(np.take_along_axis(answer.patterns, number, axis=2)[..., 0]))

    def before(self, rows: slice, view: View) -> Floats:
        """-log2 of the probability of each list's clicks before its message, given the grades, (n, B)."""
        clicks = self._clicks[rows]
        bits, every = np.full(clicks.shape[:2], np.nan), np.arange(len(view))
        if view.knowledge.belief is None or view.labels is None or self._header.intents > 1:
            return bits  # under several intents grades alone do not say how a user clicks
        decoder = PatternDecoder(view, "relevance")
        for b in range(clicks.shape[1]):
            bits[:, b] = -decoder.log_prior_of(every, b, clicks[:, b]) / np.log(2.0)
        return bits

    def is_exact(self, attack: Attack, view: View) -> bool:
        """Whether the patterns that an attack weighs in a view have their true posterior."""
        return _knows_all_steps(self._header, view.knowledge) and attack.exact_posterior(view)


def _knows_all_steps(header: TraceHeader, known: Knowledge) -> bool:
    """Whether an observer knows how users click, and what every defense does: a clip or a noise law."""
    chain = header.knowledge.get("defense")
    if not isinstance(chain, list) or known.noise is None or header.intents > 1:
        return False
    laws = [law for law in parts(known.noise) if law != "none"]
    balls = int(known.clip is not None)
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
    _answers: RoundAnswers
    _facts: list[Identifiability]
    _before: list[Floats]
    _priors: list[ClickPriors]

    def begin(self, record: RoundRecord, truth: RoundTruth) -> bool:
        """See `AttackTask`."""
        wanted = super().begin(record, truth)
        self._surprisals = _ClickSurprisals(record, truth, self.observer.header)
        self._answers = RoundAnswers(record, self.session, self._surprisals)
        self._facts, self._before, self._priors = [], [], []
        return wanted

    def see(self, seen: RoundView) -> None:
        """Ask the attacks, and note what the messages can reveal to any attack."""
        with one_blas_thread():  # attacks share decompositions with it
            self._facts.append(identifiability(seen.full))
        self._before.append(self._surprisals.before(seen.rows, seen.full))
        self._priors.append(click_priors(seen.full, self.observer.header.intents))
        self._answers.add(seen)

    def end(self) -> None:
        """Put the truth next to the answers on the round, also on one without messages."""
        record, truth, header = self.record, self.truth, self.observer.header
        at = InteractionPlacement.of(record).rows
        found = nothing_identifiable(0, 0, record.shown.shape[1])
        if self._facts:
            found = Identifiability(*(np.concatenate(arrays) for arrays in zip(*self._facts, strict=True)))
        found = found.at(at)
        observed = record.shown >= 0
        if header.holds_models:
            pairs = header.knowledge.get("pairs")
            observed = observed_documents(truth.clicks, observed, only_observed=pairs == "last-click+1")
        answers, groups = self._answers, self.setting.groups
        known = np.ones(len(truth.clicks), np.bool_) if truth.known is None else truth.known
        everything = ClickEvidence(
            query=query_names(record, header, self.observer.collection),
            message=record.origins if isinstance(record, SummedRound) else record.slot,
            shown=record.shown,
            clicks=truth.clicks,
            observed=observed,
            told=found.told(truth.clicks, observed),
            rank=found.rank,
            unknowns=found.unknowns,
            guessed=answers.guessed,
            baselines=frozenset(attack.label for attack in self.session.attacks if attack.baseline),
            probabilities=frozenset(one.label for one in self.session.attacks if one.probabilities),
            surprisal=np.concatenate(self._before)[at] if self._before else np.empty(0),
            priors=join_pieces(self._priors).at(at) if self._priors else ClickPriors.unknown((0, 0)),
            exact=answers.exact,
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
        """Evidence on all rounds.

        Raises:
            NothingToReadError: there is no round.
        """
        if not self.pieces:
            raise NothingToReadError(
                "trace: it holds no round in which a message arrived or a sum was opened"
            )
        return super().evidence()
