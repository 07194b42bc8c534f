"""The setting near the declared one that explains most messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.judge.fact_check.sample import RoundSample
from foltr_audit.judge.fact_check.settings import Model, StepSetting
from foltr_audit.judge.fact_check.steps import (
    MatchTolerance,
    SingleListReplay,
    best_patterns,
    clipped_steps,
    rescaled,
    shrunk_models,
    tolerance_of,
)
from foltr_audit.privacy.events import Ball
from foltr_audit.utils.arrays import Bools, Floats, Ints

_ENOUGH = 0.95  # of the messages: no setting further away is tried
_ALIKE = 0.05  # shares of messages that differ less are alike: then the nearer setting, or fewer clicks
_SAME = 1e-3  # relative spread of estimates of one number
_FEWEST = 3  # messages that a number must be read from


@dataclass(frozen=True)
class ExplanationThreshold:
    """What counts as an explained message.

    Attributes:
        size: the usual size of an update's numbers.
        noise: size of noise that a reproduced number may have.
        share: the share of the moved numbers that must be reproduced.
        least: the fewest numbers that must have moved for a message to count.
        by_noise: the most numbers that noise alone moves.
    """

    size: float
    noise: float
    share: float
    least: int
    by_noise: float

    def tolerance(self, view: View) -> MatchTolerance:
        """How near a number must come to count as reproduced."""
        return tolerance_of(view, self.size, self.noise)

    def explained(self, count: Ints, tolerance: MatchTolerance) -> tuple[Bools, Bools]:
        """Which of n messages are explained by `count` reproduced numbers each, and which count at all."""
        moved = tolerance.moved.sum(axis=1)
        counts = (moved >= self.least) & (moved > self.by_noise)
        return counts & (count > self.share * moved), counts


@dataclass(frozen=True)
class ExplanationCount:
    """How many of the messages that count a setting explains.

    Attributes:
        explained: how many.
        messages: how many count.
        clicked: the mean share of a list that is clicked where it is explained.
    """

    explained: int
    messages: int
    clicked: float

    @property
    def share(self) -> float:
        """The share of messages; 0 without any."""
        return self.explained / self.messages if self.messages else 0.0

    def __gt__(self, other: ExplanationCount) -> bool:
        """Whether clearly more messages are explained."""
        return self.share > other.share + _ALIKE


def explain(
    setting: StepSetting, pieces: Sequence[RoundSample], bar: ExplanationThreshold
) -> ExplanationCount:
    """How many messages a setting explains, each by its best clicks."""
    explained, messages, clicked = 0, 0, 0.0
    for view in _views(setting, pieces):
        tolerance = bar.tolerance(view)
        best = best_patterns(SingleListReplay(view), tolerance, setting.sign)
        good, counts = bar.explained(best.reproduced, tolerance)
        explained, messages = explained + int(good.sum()), messages + int(counts.sum())
        clicked += float(best.clicked[good].sum())
    return ExplanationCount(explained, messages, clicked / max(1, explained))


def _views(setting: StepSetting, pieces: Sequence[RoundSample]) -> Iterator[View]:
    for piece in pieces:
        view = setting.view(piece)
        if view is not None:
            yield view


@dataclass(frozen=True)
class FactSearchResult:
    """What a search ended with.

    Attributes:
        setting: the setting that explains most of the messages tried.
        explained: how many of those.
        own_factors: the smallest and largest factor, where the declared step times one factor a message
            explains most; else None.
    """

    setting: StepSetting
    explained: ExplanationCount
    own_factors: tuple[float, float] | None


def search(
    declared: StepSetting, pieces: Sequence[RoundSample], bar: ExplanationThreshold, *, candidates: bool
) -> FactSearchResult:
    """Try signs, kinds, models, pairs, normalisers, step sizes and clips; of equal settings the nearest wins.

    `candidates`: whether normalisers over all candidates can be tried.
    """
    best, found = declared, explain(declared, pieces, bar)
    factors: tuple[float, float] | None = None
    for frame in _frames(declared, candidates=candidates):
        if found.share >= _ENOUGH and len(frame.changes(declared)) > len(best.changes(declared)):
            break
        proposals, own = _proposals(frame, pieces, bar)
        if frame == declared:
            factors = own
        for setting in proposals:
            tried = explain(setting, pieces, bar)
            farther = (len(setting.changes(declared)), tried.clicked)
            if tried > found or (
                not found > tried and farther < (len(best.changes(declared)), found.clicked)
            ):
                best, found = setting, tried
    return FactSearchResult(best, found, factors if found.share < 0.5 else None)


def _frames(declared: StepSetting, *, candidates: bool) -> list[StepSetting]:
    """Settings with other kinds, models, pairs and normalisers, the nearest first."""
    models: tuple[Model, ...] = ("round", "before", "after")
    normalisers = ("shown", "candidates") if candidates else (declared.normaliser,)
    made = [
        replace(declared, kind=kind, model=model, pairs=pairs, normaliser=normaliser)
        for kind, model, pairs, normaliser in product(
            ("model", "update"), models, ("all", "last-click+1"), normalisers
        )
    ]
    return sorted(made, key=lambda setting: len(setting.changes(declared)))


def _proposals(
    frame: StepSetting, pieces: Sequence[RoundSample], bar: ExplanationThreshold
) -> tuple[list[StepSetting], tuple[float, float] | None]:
    """Settings of a frame with signs, step sizes and clips read from the messages; and the factors' range."""
    made = [replace(frame, sign=sign) for sign in (1, -1)]
    if frame.clip is not None:
        made += [replace(frame, sign=sign, clip=None) for sign in (1, -1)]
    free = replace(frame, clip=None)
    factors, inside, norms, messages = [], list[Floats](), [], 0
    for view in _views(free, pieces):
        replayed, tolerance = SingleListReplay(view), bar.tolerance(view)
        scaled = rescaled(replayed, tolerance)
        good, counts = bar.explained(scaled.reproduced, tolerance)
        factors.append(scaled.factor[good])
        messages += int(counts.sum())
        if frame.clip is not None:
            clipped = clipped_steps(replayed, tolerance)
            inside.append(clipped.factor[bar.explained(clipped.reproduced, tolerance)[0]])
        shrunk, sizes = shrunk_models(replayed, tolerance)
        good = bar.explained(shrunk.reproduced, tolerance)[0] & (shrunk.factor < 1 - _SAME)
        norms.append(sizes[good])
    rates = np.concatenate(factors) if factors else np.empty(0)
    made += [_at_rate(free, rate) for rate in _common(rates)]
    if frame.clip is not None:
        several = np.concatenate([rates, *inside])
        made += [
            replace(_at_rate(free, rate), clip=frame.clip)
            for rate in dict.fromkeys((*_common(rates), *_common(several)))
        ]
    for ord_, sizes in zip((1, 2), np.concatenate(norms).T if norms else (), strict=False):
        made += [replace(frame, clip=Ball(norm=_rounded(norm), ord=ord_)) for norm in _common(sizes)]
    own = None
    if rates.size > 0.8 * messages and rates.size >= _FEWEST and not _common(rates):
        own = float(np.abs(rates).min()), float(np.abs(rates).max())
    return made, own


def _at_rate(setting: StepSetting, rate: float) -> StepSetting:
    return replace(setting, sign=-1 if rate < 0 else 1, learning_rate=_rounded(abs(rate)))


def _common(values: Floats) -> list[float]:
    """The number that most values agree on, if most do."""
    if values.size < _FEWEST:
        return []
    middle = float(np.median(values))
    near = np.abs(values - middle) <= _SAME * abs(middle)
    return [float(np.median(values[near]))] if 2 * near.sum() > values.size and middle else []


def _rounded(value: float) -> float:
    """The shortest number within a millionth, since people choose short ones."""
    for digits in range(1, 7):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= 1e-6 * abs(value):
            return short
    return value
