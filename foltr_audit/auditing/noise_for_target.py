"""The smallest noise that meets a target: the inverse of `upper_bound`, by bisection."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Calibration, Defense, RoundContext, plain
from foltr_audit.core.plugins.registry import loadable, plugin_class
from foltr_audit.core.settings.defaults import CLIP
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.privacy.accounting.bound import upper_bound
from foltr_audit.privacy.accounting.situation import AccountingContext
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.bounds import UpperBound
from foltr_audit.privacy.events import CorrelatedNoise, NoiseAddition, PrivacyEvent
from foltr_audit.privacy.loss.composition import few_digits
from foltr_audit.privacy.noise.gaussian import noise_length
from foltr_audit.rng import Streams

_LEAST, _MOST = 1e-6, 1e3  # epsilons that noise is searched for
_TOLERANCE = 1e-9  # relative: a bound may exceed the target by rounding errors
_FARTHEST = 2.0**60  # factor from the first number tried to the last: a search of 30 steps
_CLOSE = 1.0 + 1e-7  # bisection stops here: far finer than the five digits that are kept


@dataclass(frozen=True, kw_only=True)
class NoiseCalibration:
    """One mechanism at the noise that meets a target, or why none does (`why_not`).

    `defense` holds the texts of the chain, empty if none meets the target; given links, e.g. secure
    aggregation, end it if it is `wired`. `upper` is proven for that chain, or for the best one that was
    tried; `once` of one round of it. `average_sd` is the standard deviation of the noise on one coordinate of
    the average; None without noise. `pure`: the target is also met at delta 0.
    """

    mechanism: str
    defense: tuple[str, ...]
    upper: UpperBound
    average_sd: float | None
    once: UpperBound | None = None
    why_not: str | None = None
    wired: bool = False
    pure: bool = False

    @property
    def sum_only(self) -> bool:
        """Whether the bound only holds for sums of messages."""
        return calibrations()[self.mechanism].in_sum and (bool(self.why_not) or self.upper.rests_on == "sum")

    @property
    def noise_in(self) -> str:
        """Where the noise is that the bound rests on; empty where there is none."""
        if self.sum_only:
            return "sum only"
        if self.why_not:
            return ""
        if self.upper.rests_on == "aggregator":
            return "aggregator"
        return "clicks" if self.average_sd is None else "message"


@cache
def calibrations() -> dict[str, Calibration]:
    """How the noise of each registered defense that can be calibrated follows from one number, by name.

    Those for an L1 distance come first, then those for an L2 distance, then those without a clip.
    """
    mechanisms = {name: plugin_class(Defense, name).calibrated_by for name in loadable(Defense)}
    known = [(name, rule) for name, rule in mechanisms.items() if rule is not None]
    return dict(sorted(known, key=lambda one: (one[1].order or 3, one[1].in_sum)))


def calibrate(
    mechanism: str,
    target: float,
    situation: AccountingContext,
    *,
    norm: float = 1.5,
    order: int | None = None,
    wire: tuple[str, ...] = (),
) -> NoiseCalibration:
    """The smallest noise of a mechanism for which accounting proves a target epsilon.

    The number that sets the noise is found to five significant digits, on the safe side.

    The target is of one round, or of all rounds of the situation, whose delta is the target's. Local models
    are clipped to a ball of radius `norm` in the norm `order`, by default the one that the noise is for;
    `wire` are texts of links that end the chain, e.g. secure aggregation.
    """
    if mechanism not in calibrations():
        raise UsageError(f"--mechanism: unknown {mechanism!r}; {suggest_name(mechanism, calibrations())}")
    if not _LEAST <= target <= _MOST:
        raise UsageError(f"--target-eps: {target:g}; expected {_LEAST:g} to {_MOST:g}")
    if not 0 < norm < math.inf:
        raise UsageError(f"--norm: {norm:g}; expected a finite number above 0")
    if order not in (None, 1, 2):
        raise UsageError(f"--ord: {order}; expected 1 or 2")
    return _NoiseSearch(calibrations()[mechanism], mechanism, target, situation, norm, order, wire).result()


@dataclass
class _NoiseSearch:
    """The search for one mechanism; `tried` stores bounds by the number that sets the noise."""

    kind: Calibration
    name: str
    target: float
    situation: AccountingContext
    norm: float
    order: int | None
    wire: tuple[str, ...]
    tried: dict[float, UpperBound | None] = field(default_factory=dict)

    def result(self) -> NoiseCalibration:
        """The least noise that meets the target, or why none does."""
        good = self._find_one()
        best = None if good is None else self._round_off(*self._bisect(good))
        upper = None if best is None else self.tried[best]
        if best is None or upper is None:
            return self._describe_failure()
        pure = upper_bound(self._events(best), replace(self.situation, delta=0.0))
        return NoiseCalibration(
            mechanism=self.name,
            defense=self._texts(best),
            upper=upper,
            average_sd=self._average_sd(best),
            once=upper_bound(self._events(best), replace(self.situation, rounds=1)),
            wired=bool(self.wire),
            pure=self._is_low(pure),
        )

    def _texts(self, number: float) -> tuple[str, ...]:
        order = self.order or self.kind.order
        parameters = self.situation.parameters
        try:
            noise = plugin_class(Defense, self.name).with_noise(number, self.norm, order, parameters).label
        except ValueError as error:
            raise UsageError(f"defense {self.name}: noise of {number:g} is refused: {error}") from error
        clip = f"{CLIP}:norm={plain(self.norm)}{',ord=1' * (order == 1)}"
        return (noise, *self.wire) if self.kind.order == 0 else (clip, noise, *self.wire)

    def _events(self, number: float) -> tuple[PrivacyEvent, ...]:
        there = self.situation
        context = RoundContext(
            round=0,
            shares=self.members.cohort,
            clients=np.zeros(1, dtype=np.int64),
            counts=np.full(1, there.interactions),
            parameters=np.zeros(there.parameters),
            source=Streams(0),
            separation=there.separation,
        )
        return DefenseChain(parse_chain(self._texts(number))).events(context)

    @property
    def members(self) -> SumMembers:
        return self.situation.members or SumMembers(cohort=1)

    def _meets(self, number: float) -> bool:
        """Whether accounting proves the target; numbers that the defense refuses do not."""
        if number not in self.tried:
            try:
                self.tried[number] = upper_bound(self._events(number), self.situation)
            except UsageError:
                self.tried[number] = None
        return self._is_low(self.tried[number])

    def _is_low(self, upper: UpperBound | None) -> bool:
        return upper is not None and upper.epsilon <= self.target * (1.0 + _TOLERANCE)

    def _more_noise(self, number: float, factor: float) -> float:
        return number / factor if self.kind.falls else number * factor

    def _find_one(self) -> float | None:
        """A number that meets the target, less than a factor of 4 from one that does not, if possible.

        The first one tried is of the order of the answer for one client and one round.
        """
        factor, start = 1.0, self.target if self.kind.falls else self.norm
        while not self._meets(self._more_noise(start, factor)):
            factor *= 4.0
            if factor > _FARTHEST:
                return None
        return self._more_noise(start, factor)

    def _bisect(self, good: float) -> tuple[float, float]:
        """A number that meets the target and a close one with less noise that does not."""
        bad = self._more_noise(good, 0.25)
        while self._meets(bad):
            good, bad = bad, self._more_noise(bad, 0.25)
            if not 1.0 / _FARTHEST < bad < _FARTHEST:
                return good, good
        while max(good / bad, bad / good) > _CLOSE:
            # The geometric mean: the right order of magnitude is not known, and precision is relative.
            middle = math.sqrt(good * bad)
            good, bad = (middle, bad) if self._meets(middle) else (good, middle)
        return good, bad

    def _round_off(self, good: float, bad: float) -> float:
        """The nearest number with few digits that meets the target; else the number that was found."""
        towards_noise = math.floor if self.kind.falls else math.ceil
        for candidate in (few_digits(bad, round), few_digits(good, towards_noise)):
            if self._meets(candidate):
                return candidate
        return good

    def _average_sd(self, number: float) -> float | None:
        arriving = self.members.messages()
        variances = []
        for event in self._events(number):
            if isinstance(event, NoiseAddition):
                variances.append(event.law.variance / arriving)
            if isinstance(event, CorrelatedNoise):
                deviation = event.sigma * noise_length(event.bands, self.situation.rounds) / arriving
                variances.append(deviation * deviation)
        return math.sqrt(sum(variances)) if variances else None

    def _describe_failure(self) -> NoiseCalibration:
        proven = [upper for upper in self.tried.values() if upper is not None]
        why = f"{self.name} accepts none of the noise that was tried"
        best = UpperBound(epsilon=math.inf, delta=self.situation.delta, how=why)
        if proven:
            best = min(proven, key=lambda upper: upper.epsilon)
            finite = math.isfinite(best.epsilon)
            why = f"not provable (best bound {best.epsilon:.4g}: {best.how})" if finite else best.how
        return NoiseCalibration(
            mechanism=self.name, defense=(), upper=best, average_sd=None, why_not=why, wired=bool(self.wire)
        )
