"""What a comparison decides: what attacks are shown to do, which defenses none beats, and which to use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.results import Estimate, Interval
from foltr_audit.experiments.table import (
    Attacked,
    BestAttack,
    ByQuery,
    ComparedPool,
    Difference,
    PoolKey,
    WorldKey,
    proven_auc,
    worst_audit,
)
from foltr_audit.judge.doubts import shown_above
from foltr_audit.judge.significance import mean_bounds
from foltr_audit.privacy.observer_views import VIEWS, sees_lists

MOST_LOSS = 0.05
"""A defense passes whose loss of nDCG@10 to no defense is shown to be at most this, see `cost_doubt`."""

MOST_AUC = 0.75
"""The one-sided 95 % upper bound of the AUC of the best attack has to be at most this, or that of what it
adds to the best guess at most `ABOVE_GUESS`: with few lists no attack is shown to succeed, however good."""

ABOVE_GUESS = 0.1

DIGITS = 3
"""That tables print of AUC and nDCG."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedWorld:
    """Pools that share data, scenario and click model."""

    key: WorldKey
    pools: tuple[ComparedPool, ...]

    @cached_property
    def leaks(self) -> dict[PoolKey, StrongestLeak]:
        """What an attack is shown to do; only of pools in which one was scored, or had nothing to read."""
        return {pool.key: leaks[0] for pool in self.pools if (leaks := self.leaks_of[pool.key])}

    @cached_property
    def leaks_of(self) -> dict[PoolKey, list[StrongestLeak]]:
        """The same for each attacked server, that of `leaks` first."""
        return {
            pool.key: [leak for seen in pool.attacked if (leak := find_leak(seen, len(pool.attacked)))]
            for pool in self.pools
        }

    @cached_property
    def front(self) -> dict[PoolKey, FrontPlace]:
        """Which pools no other one beats in both privacy and utility."""
        choices = [_choice(pool) for pool in self.pools]
        return {
            pool.key: FrontPlace(choice.on_front(winners), tuple(self.pools[number] for number in winners))
            for pool, choice, winners in zip(self.pools, choices, beaten_by(choices), strict=True)
        }


def worlds(pools: Iterable[ComparedPool]) -> list[ComparedWorld]:
    """The worlds of a comparison, in the order of its pools."""
    pools_of: dict[WorldKey, list[ComparedPool]] = {}
    for pool in pools:
        pools_of.setdefault(pool.world, []).append(pool)
    return [ComparedWorld(key=key, pools=tuple(pools)) for key, pools in pools_of.items()]


LeakKind = Literal["reads", "grades", "guess", "no sum", "unknown"]
"""The best attack is shown to beat every guess, also the one that knows the grades of documents; every guess
but that one; or none. It had nothing to read; or has no interval, so nothing is shown."""


BEATS: tuple[LeakKind, ...] = ("reads", "grades")
"""The attack is shown to read messages."""


class StrongestLeak(NamedTuple):
    """What the best attack of a server is shown to reveal beyond the guesses that stand beside it."""

    seen: Attacked
    kind: LeakKind


def find_leak(seen: Attacked, servers: int = 1) -> StrongestLeak | None:
    """What the best attack of one of several servers is shown to do; None where none was scored."""
    if seen.unread:
        return StrongestLeak(seen, "no sum")
    best = seen.best
    if best.attack is None or not best.auc.known:
        return None
    if best.above_guess.ci95 is None:
        return StrongestLeak(seen, "unknown")
    if not shown_above(best.above_guess, 0.0, servers):
        return StrongestLeak(seen, "guess")
    knows_more = best.grades_auc is None or shown_above(best.above_grades, 0.0, servers)
    return StrongestLeak(seen, "reads" if knows_more else "grades")


class FrontPlace(NamedTuple):
    """Whether a pool is on the front of leak and nDCG@10, None if not known; and pools there that beat it."""

    on: bool | None
    beaten_by: tuple[ComparedPool, ...]


class ParetoChoice(NamedTuple):
    """One choice: what its best attack adds to the AUC of the best guess, its nDCG and that of each query.

    What is not known is None. `leak_ends`: the 95 % interval; `refuted`: its claim is false.
    """

    leak: float | None
    utility: float | None
    leak_ends: Interval | None
    queries: ByQuery
    refuted: bool = False

    @property
    def known(self) -> bool:
        """Whether leak and nDCG are."""
        return self.leak is not None and self.utility is not None

    def on_front(self, winners: Sequence[object]) -> bool | None:
        """Whether its claim is not false, and no other beats it; None where it is not known."""
        return not self.refuted and not winners if self.known else None

    def beats(self, other: ParetoChoice) -> bool:
        """Whether it is as good in both as printed, and shown to be better in one.

        Values are compared in three digits, as they are printed. A leak below 0, which is that of an attack
        that adds nothing to the guess, counts as 0: it has been unlucky.
        """
        if self.refuted:
            return False
        if self.leak is None or self.utility is None or other.leak is None or other.utility is None:
            return False
        mine, theirs = (max(round(leak, DIGITS), 0.0) for leak in (self.leak, other.leak))
        gain = round(self.utility, DIGITS) - round(other.utility, DIGITS)
        if mine > theirs or gain < 0:
            return False
        return (mine < theirs and self._leaks_less(other)) or (gain > 0 and self._is_more_useful(other))

    def _leaks_less(self, other: ParetoChoice) -> bool:
        """Whether the 95 % interval of the difference of both leaks lies on one side of 0.

        From the interval of each (Zou & Donner 2008, "Construction of confidence limits about effect
        measures"), as if they were independent; they share queries, which makes the true one narrower.
        """
        if self.leak is None or other.leak is None or self.leak_ends is None or other.leak_ends is None:
            return False
        apart = other.leak - max(self.leak, 0.0)
        return apart > math.hypot(other.leak - other.leak_ends[0], max(0.0, self.leak_ends[1] - self.leak))

    def _is_more_useful(self, other: ParetoChoice) -> bool:
        """Whether the 95 % interval of the mean difference in nDCG over queries lies above 0."""
        both = np.intersect1d(self.queries[0], other.queries[0])
        mine, theirs = (values[np.isin(names, both)] for names, values in (self.queries, other.queries))
        ends = mean_bounds(mine - theirs, -1.0).interval
        return ends is not None and ends[0] > 0.0


def _choice(pool: ComparedPool) -> ParetoChoice:
    above = Estimate(0.0, (0.0, 0.0)) if pool.unread else pool.best.above_guess
    return ParetoChoice(
        leak=above.value if above.known else None,
        utility=pool.ndcg.value if pool.ndcg.known else None,
        leak_ends=above.ci95,
        queries=pool.queries,
        refuted=bool({*FALSE, CONTRADICTION} & set(pool.verdicts.values())),
    )


def beaten_by(choices: Sequence[ParetoChoice]) -> list[list[int]]:
    """For each choice the numbers of those that beat it, most useful first; of the front where one does."""
    winners = [[n for n, other in enumerate(choices) if other.beats(choice)] for choice in choices]
    undominated = []
    for winners_of in winners:
        best = [number for number in winners_of if not winners[number]] or winners_of
        undominated.append(sorted(best, key=lambda number: -(choices[number].utility or 0.0)))
    return undominated


Judgement = Literal[
    "recommended",
    "holds",
    "no proof",
    "no bound",
    "cost not known",
    "costs too much",
    "too few lists",
    "leaks",
    "false claim",
    "not tested",
]
"""From best to worst.

`holds`: nothing speaks against it; `no proof`: no attack succeeds, but its claim is not proven; `no bound`:
nor can it be, since its noise was not computed for what its clip allows (warning `UNBOUNDED`); `cost not
known` and `costs too much`: see `cost_doubt`.
"""

UNBOUNDED = "FA101"
"""The warning of noise that is smaller than what two inputs may differ by, or of noise without a clip."""

_RANK: tuple[Judgement, ...] = get_args(Judgement)[1:]
HELD: tuple[Judgement, ...] = ("holds", "no proof")


def cost_doubt(
    difference: Difference, limit: float = MOST_LOSS
) -> Literal["cost not known", "costs too much"] | None:
    """What speaks against a defense by its loss of nDCG@10; None where that is shown to be within a limit.

    It is shown to be within by its one-sided 95 % upper bound, and to be above by its lower one. In between,
    or without a comparison, it is not known. The bounds are of one defense alone: neither more defenses
    beside it nor fewer queries make it pass.
    """
    if difference.upper_loss <= limit:
        return None
    loss = difference.loss
    return "costs too much" if loss is not None and loss.lower > limit else "cost not known"


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedDefense:
    """A defense, judged by its worst pool in all worlds of a comparison.

    `with_lists` is the judgement where the server sees the shown lists.
    """

    pools: tuple[ComparedPool, ...]
    judgement: Judgement
    with_lists: Judgement

    def judged(self, *, lists: bool) -> Judgement:
        return self.with_lists if lists else self.judgement

    @property
    def learner(self) -> str:
        return self.pools[0].record.learner

    @property
    def name(self) -> str:
        return self.pools[0].name

    @property
    def eps_claimed(self) -> float:
        return self.pools[0].eps_claimed

    def eps_proven(self, *, lists: bool = False) -> float:
        """The largest epsilon that is proven for one interaction, over worlds and views with a claim.

        With `lists` also where the server sees the shown lists. Without an audited claim that of the proof of
        all rounds; infinite where nothing is proven.
        """
        proven: list[float] = []
        for pool in self.pools:
            audits = [worst_audit(pool, view) for view in VIEWS if lists or not sees_lists(view)]
            proof = pool.proof("individual+lists" if lists else "individual")
            known = [audit.upper for audit in audits if audit and audit.claim is not None]
            known += [proof.upper] if proof and not known else []
            proven += [upper.epsilon for upper in known] or [math.inf]
        return max(proven)

    @property
    def queries_to_settle(self) -> int | None:
        """About how many queries would show what is not known of its cost; None if no number would."""
        needed = [
            pool.difference.queries_needed(MOST_LOSS)
            for pool in self.pools
            if cost_doubt(pool.difference) == "cost not known"
        ]
        known = [number for number in needed if number is not None]
        return max(known) if known and len(known) == len(needed) else None

    @property
    def defended(self) -> bool:
        return self.pools[0].defended

    @property
    def ndcg(self) -> float:
        """Mean nDCG@10 over worlds."""
        return sum(pool.ndcg.value for pool in self.pools) / len(self.pools)

    @property
    def auc(self) -> float:
        """The largest AUC of its best attack."""
        aucs = [pool.best.auc for pool in self.pools]
        return max((auc.value for auc in aucs if auc.known), default=math.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What to use of the defenses in the order of the comparison; None for none of them.

    `best_with_lists` is the one to use where the server sees the shown lists; also None where it is `best`.
    """

    judged: tuple[JudgedDefense, ...]
    best: JudgedDefense | None
    best_with_lists: JudgedDefense | None

    @property
    def to_use_with_lists(self) -> JudgedDefense | None:
        """The defense to use where the server sees the shown lists, which may be `best`; None for none."""
        if self.best_with_lists is None and self.best is not None and self.best.with_lists in HELD:
            return self.best
        return self.best_with_lists

    def judgement(self, row: Mapping[str, Any], *, lists: bool = False) -> Judgement:
        """The judgement on the defense of a row, by its columns `learner` and `name`.

        With `lists` that where the server sees the shown lists.
        """
        judged = next(one for one in self.judged if (one.learner, one.name) == (row["learner"], row["name"]))
        return self.verdict(judged, lists=lists)

    def verdict(self, judged: JudgedDefense, *, lists: bool = False) -> Judgement:
        """The judgement on a defense, or that it is the one to use."""
        if judged is (self.to_use_with_lists if lists else self.best):
            return "recommended"
        return judged.judged(lists=lists)


def decide(pools: Sequence[ComparedPool]) -> Decision | None:
    """The decision of a comparison; None where it has no results.

    A defense is out if its claim is false, an attack is shown to beat guessing, or it is not shown to cost
    at most `MOST_LOSS` of nDCG@10, in any world. Of the others one with a proven claim comes first, then the
    one with the smallest proven epsilon in three digits (without a proof the smallest claimed one), then the
    highest nDCG@10, then the lowest AUC.
    """
    if not pools:
        return None
    judgements: dict[PoolKey, list[tuple[ComparedPool, dict[bool, Judgement]]]] = {}
    for world in worlds(pools):
        for pool in world.pools:
            leaks = world.leaks_of[pool.key]
            both = {lists: _of_pool(pool, leaks, lists=lists) for lists in (False, True)}
            judgements.setdefault(pool.key, []).append((pool, both))
    unbounded = {
        pool.label[:2] for pool in pools if any(warning.code == UNBOUNDED for warning in pool.record.warnings)
    }

    def worst(several: Sequence[tuple[ComparedPool, dict[bool, Judgement]]], lists: bool) -> Judgement:
        found = max((both[lists] for _, both in several), key=_RANK.index)
        return "no bound" if found == "no proof" and several[0][0].label[:2] in unbounded else found

    judged = [
        JudgedDefense(
            pools=tuple(pool for pool, _ in several),
            judgement=worst(several, lists=False),
            with_lists=worst(several, lists=True),
        )
        for several in judgements.values()
    ]
    best, best_listed = _best(judged, lists=False), _best(judged, lists=True)
    with_lists = None if best_listed is best else best_listed
    return Decision(judged=tuple(judged), best=best, best_with_lists=with_lists)


def _best(judged: Sequence[JudgedDefense], *, lists: bool) -> JudgedDefense | None:
    def order(one: JudgedDefense) -> tuple[int, float, float, float, float]:
        # Noise is made for an epsilon and proven for a little less: 1.1999 is no safer than 1.2.
        proven = float(f"{one.eps_proven(lists=lists):.{DIGITS}g}")
        claimed = one.eps_claimed if math.isinf(proven) else 0.0
        return _RANK.index(one.judged(lists=lists)), proven, claimed, -round(one.ndcg, DIGITS), one.auc

    able = [one for one in judged if one.defended and one.judged(lists=lists) in HELD]
    return min(able, key=order, default=None)


def _of_pool(pool: ComparedPool, leaks: Sequence[StrongestLeak], *, lists: bool) -> Judgement:
    # Whoever sees less than a server can do no more than it.
    leaks = [leak for leak in leaks if leak.seen is pool or lists or not sees_lists(leak.seen.view)]
    verdicts = [verdict for view, verdict in pool.verdicts.items() if lists or not sees_lists(view)]
    if {*FALSE, CONTRADICTION} & set(verdicts):
        return "false claim"
    if not leaks or leaks[0].seen is not pool or leaks[0].kind == "unknown" or not pool.ndcg.known:
        return "not tested"
    if any(leak.kind in BEATS for leak in leaks):
        return "leaks"
    if any(_may_leak(leak.seen.best) for leak in leaks):
        return "too few lists"
    if pool.defended and (doubt := cost_doubt(pool.difference)):
        return doubt
    proven = bool(verdicts) and set(verdicts) == {"proven"}
    if lists:  # a view in which nothing is claimed is not among the verdicts
        audits = [worst_audit(pool, view) for view in VIEWS if sees_lists(view)]
        proven &= all(audit.verdict == "proven" for audit in audits if audit is not None)
    alone = not pool.audits and proven_auc(pool) is not None and not lists
    return "holds" if proven or alone else "no proof"


def _may_leak(best: BestAttack) -> bool:
    limited = (best.auc, MOST_AUC), (best.above_guess, ABOVE_GUESS)
    return all(estimate.bounds is not None and estimate.bounds[1] > limit for estimate, limit in limited)
