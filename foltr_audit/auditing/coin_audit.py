"""Audits of recorded runs: a lower bound on epsilon from coins that the recorded clients tossed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from foltr_audit.auditing.coin_bounds import ONE_RUN, ONE_TAIL, CoinGuesses, guessed
from foltr_audit.auditing.coin_fairness import refuse_unfair, tossed
from foltr_audit.auditing.coin_scores import score_coins
from foltr_audit.auditing.estimators import LowerBound
from foltr_audit.auditing.verdict import FALSE, STRICT, ClaimEvidence, Verdict, verdict_on
from foltr_audit.core.warning_codes import CodedWarning, coded
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.round_sums import seen_as_sums
from foltr_audit.privacy.observer_views import WITH_LISTS, without_lists
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import RoundStore

UNIT = "interaction"
"""What neighbouring inputs differ in: the clicks on one list."""

_ESTIMATORS = (ONE_RUN, ONE_TAIL)
_VIEWS = ("individual", "aggregate")


@dataclass(frozen=True, kw_only=True)
class CoinAudit:
    """What is checked, and how.

    Attributes:
        claimed: the claimed epsilon; infinite without a claim.
        delta: of the claim.
        confidence: of the lower bound.
        estimator: `one-run` or `clopper-pearson`.
        streams: named random streams, which choose the coins that choose a score.

    Raises:
        UsageError: another estimator.
    """

    claimed: float
    delta: float
    confidence: float
    estimator: str
    streams: Streams

    def __post_init__(self) -> None:
        if self.estimator not in _ESTIMATORS:
            hint = suggest_name(self.estimator, _ESTIMATORS)
            raise UsageError(f"--estimator: {self.estimator!r} is not for recorded coins; {hint}")

    def finding(self, store: RoundStore, observer: Observer, view: str) -> CoinFinding:
        """What the coins of recorded rounds show in a view, `individual` or `aggregate`, with the lists.

        *Guarantees*, neighbouring relation and unit: see `coin_bounds.guessed` and `coin_scores.score_coins`.
        The observer sees the messages or the sums of all rounds, and the shown lists.

        Raises:
            UsageError: no coins or unfair ones, facts that replays need are missing, or another view.
        """
        name = without_lists(view)
        if name not in _VIEWS:
            raise UsageError(f"--view: {view!r} is not for recorded coins; {suggest_name(name, _VIEWS)}")
        refuse_unfair(*tossed(store))
        if name == "aggregate":
            store, observer = seen_as_sums(store, observer)
        elif store.header.kind == "masked":
            raise UsageError("audit: messages are masked; expected --view aggregate, of their sums")
        found = score_coins(store, observer)
        guesses, strict = (
            guessed(
                found.coins,
                found.scores,
                delta=self.delta,
                confidence=confidence,
                streams=self.streams,
            )
            for confidence in (self.confidence, 1.0 - STRICT)
        )
        lower = self._chosen(guesses)
        sure = not lower.assumes
        measured, surest = (self._chosen(one).epsilon if sure else 0.0 for one in (guesses, strict))
        verdict, why = verdict_on(
            ClaimEvidence(claimed=self.claimed, proven=math.inf, exact=None, measured=measured, strict=surest)
        )
        if not sure:
            why += f" ({lower.estimator} assumes {lower.assumes}; it refutes nothing)"
        return CoinFinding(
            view=name + WITH_LISTS,
            eps_claimed=self.claimed,
            coins=found.coins.size,
            outputs=found.outputs,
            guesses=guesses,
            lower=lower,
            verdict=verdict,
            why=why,
            notes=tuple(self._notes(guesses, lower, verdict)),
        )

    def _chosen(self, guesses: CoinGuesses) -> LowerBound:
        bounds = {bound.estimator: bound for bound in guesses.bounds}
        return bounds.get(self.estimator, bounds[ONE_RUN])

    def _notes(self, guesses: CoinGuesses, lower: LowerBound, verdict: Verdict) -> Iterator[CodedWarning]:
        if verdict in FALSE and self.delta == 0:
            yield coded("delta zero", "the claim was checked with delta 0; give --delta if it has one")
        if lower.estimator != self.estimator:
            yield coded(
                "few trials", f"too few coins for {self.estimator}; {lower.estimator} is shown instead"
            )
        if guesses.right == guesses.guesses:
            yield coded("few trials", "every guessed coin is right: more coins could show a larger epsilon")
        elif math.isfinite(self.claimed) and self.claimed >= lower.ceiling:
            yield coded(
                "few trials", f"so few coins cannot refute a claim of {self.claimed:g}; expected more"
            )


@dataclass(frozen=True, kw_only=True)
class CoinFinding:
    """What recorded coins show in one view.

    Attributes:
        view: `individual+lists` or `aggregate+lists`.
        eps_claimed: what is claimed; infinite without a claim.
        coins: how many were tossed.
        outputs: messages or sums that show them.
        guesses: what guesses of them show.
        lower: the bound of the chosen estimator.
        verdict: `refuted` or `not refuted`.
        why: the reason for the verdict.
        notes: what else a reader should know.
    """

    view: str
    eps_claimed: float
    coins: int
    outputs: int
    guesses: CoinGuesses
    lower: LowerBound
    verdict: Verdict
    why: str
    notes: tuple[CodedWarning, ...]
