"""What limits attacks on a defense, for each observer: from proofs, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from foltr_audit.auditing.verdict import BROKEN, CONTRADICTION
from foltr_audit.core.settings.defaults import UNIT
from foltr_audit.privacy.observer_views import VIEWS, sees
from foltr_audit.privacy.tradeoff import TradeOff
from foltr_audit.report.results.compare_rows import ClaimRow
from foltr_audit.report.results.privacy_card import PrivacyCard
from foltr_audit.report.results.whole_run import RunBoundRow
from foltr_audit.report.results.wording import delta_text

ONE_OF = {
    "click": "one click",
    "interaction": "the clicks on one list",
    "query": "what one person clicked for one query",
    "client": "everything of one person",
}
"""What an epsilon protects, by its unit."""

_CLICKS = "of 100 clicks that are as likely as not, no attack guesses more than {most} right on average"

_MOST = {
    "click": _CLICKS,
    "interaction": _CLICKS,
    "query": "if a person clicked one of two things for a query, and both are equally likely, no attack says "
    "rightly which more than {most} times in 100 on average",
    "client": "if the messages of a client come from one of two persons, and both are equally likely, no "
    "attack says rightly from which more than {most} times in 100 on average",
}
"""What a proof leaves to attacks, by its unit."""

_RUN = {
    "query": "if a person clicked in one of two ways, and both are equally likely, no attack says rightly in "
    "which more than {most} times in 100 on average",
    "client": _MOST["client"],
}
"""What a proof of the whole run leaves to attacks, by its unit."""

_WEAK = "what is proven is too weak to limit an attack in practice"

NO_LIMIT = "no limit is known to what an attack can find"
"""What follows where nothing is proven."""


def most_of_hundred(eps: float, delta: float) -> int:
    """How many of 100 yes-or-no secrets that are as likely as not any attack can guess right, rounded up.

    >>> most_of_hundred(1.2, 0.0), most_of_hundred(0.0, 0.0), most_of_hundred(math.inf, 0.0)
    (77, 50, 100)
    """
    if math.isinf(eps):
        return 100
    return math.ceil(100 * float(TradeOff.of_epsilon(eps, delta).accuracy()) - 1e-9)


def most_by_auc(auc: float) -> int:
    """The same from the largest AUC of any attack, rounded up: no test is right more often.

    A concave ROC curve lies above the two lines from its point of largest accuracy A to the corners, and the
    area below these is A.
    """
    return math.ceil(100 * auc - 1e-9)


def limit_text(unit: str, most: int) -> str:
    """The most that any attack can reach, in words.

    >>> limit_text("click", 77)
    'of 100 clicks that are as likely as not, no attack guesses more than 77 right on average'
    """
    return _WEAK if most == 100 else _MOST[unit].format(most=most)


def run_text(run: RunBoundRow) -> str:
    """The most that any attack can find in all rounds together, in words, and its proof."""
    if math.isinf(run.eps):
        return f"{NO_LIMIT} about one person. Why: {run.how.rstrip('.')}"
    most = most_of_hundred(run.eps, run.delta)
    limit = _WEAK if most == 100 else _RUN[run.unit].format(most=most)
    proven = f"{limit}. Proven: {eps_words(run.eps, run.delta)}"
    if run.sampled == 1:
        return proven
    always = "nothing" if math.isinf(run.eps_always) else f"epsilon {run.eps_always:.3g}"
    return f"{proven}; for somebody who takes part as often as possible: {always}"


def eps_words(eps: float, delta: float) -> str:
    """An epsilon with its delta.

    >>> eps_words(1.2, 1e-5)
    'epsilon 1.2, delta 1e-05'
    """
    return f"epsilon {eps:.3g}" + (f", {delta_text(delta)}" if delta else "")


@dataclass(frozen=True, kw_only=True)
class ObserverLimit:
    """The most that any attack can find, by the proof for one observer.

    Attributes:
        view, sees: what the observer sees, by name and in words.
        unit: what the proof is about.
        claim: the claim that was checked; None where none was.
        most: how many of 100 yes-or-no secrets that are as likely as not any attack guesses right; None
            where nothing is proven.
        proof: what is proven, or why nothing is.
    """

    view: str
    sees: str
    unit: str
    claim: ClaimRow | None
    most: int | None
    proof: str

    @property
    def text(self) -> str:
        """The limit in words, and its proof."""
        return f"{NO_LIMIT if self.most is None else limit_text(self.unit, self.most)}. {self.proof}"


def observer_limits(card: PrivacyCard) -> list[ObserverLimit]:
    """One limit for each checked claim, then one for each other observer of whom anything was computed."""
    ceilings = _ceilings(card)
    limits = [_of_claim(row, ceilings.get(row.view)) for row in card.claims]
    return [*limits, *_unchecked(card, ceilings)]


def limits_of_run(card: PrivacyCard) -> list[tuple[str, int, str]]:
    """What an observer sees, the rounds, and the limit for all of them, of each who is limited in one."""
    limited = [one.claim for one in observer_limits(card) if one.claim is not None and one.most is not None]
    return [(row.sees, row.run.rounds, run_text(row.run)) for row in limited]


def least_limit(limits: list[ObserverLimit]) -> ObserverLimit | None:
    """The smallest limit on clicks; None where nothing is proven."""
    known = [one for one in limits if one.most is not None and one.unit in ("click", "interaction")]
    return min(known, key=lambda one: one.most or 0, default=None)


def _ceilings(card: PrivacyCard) -> dict[str, tuple[float, str]]:
    """The largest AUC that proofs leave to any attack on a click, over all worlds, and why, by view.

    Empty where a check shows that proofs cannot be relied on.
    """
    found: dict[str, tuple[float, str]] = {}
    if any(row.verdict in (BROKEN, CONTRADICTION) for row in card.claims):
        return found
    for world in card.worlds:
        for one in world.result.ceilings:
            found[one.view] = max(found.get(one.view, (0.0, "")), (one.auc, one.how))
    return found


def _of_claim(row: ClaimRow, ceiling: tuple[float, str] | None) -> ObserverLimit:
    most, proof = None, f"Why: {row.upper_how.rstrip('.')}"
    if row.verdict in (BROKEN, CONTRADICTION):
        proof = "The proof cannot be relied on"
    elif math.isfinite(row.eps_upper):
        most, proof = (
            most_of_hundred(row.eps_upper, row.delta),
            f"Proven: {eps_words(row.eps_upper, row.delta)}",
        )
        if ceiling is not None and row.unit == UNIT:
            most = most_by_auc(ceiling[0])  # of the whole trade-off curve, and not of one epsilon
    return ObserverLimit(view=row.view, sees=row.sees, unit=row.unit, claim=row, most=most, proof=proof)


def _unchecked(card: PrivacyCard, ceilings: dict[str, tuple[float, str]]) -> Iterator[ObserverLimit]:
    seen = {row.view for row in card.claims}
    for view in VIEWS:
        if view in ceilings and view not in seen:
            auc, how = ceilings[view]
            bounded = auc < 1
            yield ObserverLimit(
                view=view,
                sees=sees(view),
                unit=UNIT,
                claim=None,
                most=most_by_auc(auc) if bounded else None,
                proof="Proven, but not checked by trials" if bounded else f"Why: {how.rstrip('.')}",
            )
