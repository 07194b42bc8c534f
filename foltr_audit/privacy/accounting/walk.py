"""From the events of a chain to what proofs use: distances, noise, and what happens after the noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from foltr_audit.privacy.events import (
    DIGITS,
    ClickRandomization,
    CorrelatedNoise,
    FloatRounding,
    GridRounding,
    KeyShares,
    MessageAggregation,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyEvent,
    RevealedDraws,
    UnknownNoise,
)
from foltr_audit.privacy.loss.losses import Norms, whole_multiple
from foltr_audit.privacy.noise import AdditiveNoise

Kind = Literal[
    "noise",
    "grid noise",
    "unknown noise",
    "rounding",
    "reduction",
    "opaque",
    "unknown",
    "randomisation",
    "sum",
    "sum noise",
    "format",
]
"""`noise`: with a density; `unknown noise`: of a law that is not known here; `reduction`: clipping, scaling,
leaving coordinates out; `opaque`: a change that states nothing about itself; `unknown`: one that this version
cannot read; `randomisation`: of clicks or metrics; `sum noise`: on the sum, not on messages;
`format`: how the numbers of a message are sent, and what it says of its client's draws."""

CHANGES_MESSAGES: tuple[Kind, ...] = ("rounding", "reduction", "opaque", "unknown")
"""Kinds other than noise that change a message."""

NOISE: tuple[Kind, ...] = ("noise", "grid noise", "unknown noise")

_KINDS: dict[type, Kind] = {
    GridRounding: "rounding",
    NormBound: "reduction",
    NormScaling: "reduction",
    OpaqueChange: "opaque",
    ClickRandomization: "randomisation",
    MetricRandomization: "randomisation",
    MessageAggregation: "sum",
    CorrelatedNoise: "sum noise",
    FloatRounding: "format",
    RevealedDraws: "format",
    UnknownNoise: "unknown noise",
}


def kind_of(event: PrivacyEvent | UnknownNoise | None) -> Kind:
    """What an event does to a message; None is an event that could not be read."""
    if event is None:
        return "unknown"
    if isinstance(event, NoiseAddition):
        return "grid noise" if event.law.grid > 0 else "noise"
    return next(kind for known, kind in _KINDS.items() if isinstance(event, known))


KINDS = ("model", "update")


@dataclass(frozen=True, kw_only=True)
class ProtectiveNoise:
    """Noise that was added to every message, and what it has to hide.

    Attributes:
        law: its law, for one client.
        apart: how far apart two messages of one client may be before the noise.
        unbounded: why they may be any distance apart, where `apart` says so.
        grid: step of the grid that messages lie on before the noise, 0 if on none.
        spoilt: what happened to each message after the noise and before the sum, so that the sum of
            messages no longer holds the sum of the noise; None if it still does.
    """

    law: AdditiveNoise
    apart: Norms
    unbounded: str
    grid: float
    spoilt: str | None = None


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """Correlated noise that was added to the sums of all rounds, and what it has to hide.

    Attributes:
        event: the noise.
        apart: how far apart two messages of one client may be when they are summed.
        unbounded: why they may be any distance apart, where `apart` says so.
    """

    event: CorrelatedNoise
    apart: Norms
    unbounded: str


class ChainSummary:
    """What the events of a chain do to messages of P coordinates, one after the other.

    `_inside` holds the balls around the origin and around the global model, `_apart` how far apart two
    messages with the same noise may be. Links are assumed to bound a message by moving it towards the
    centre of its ball, as scaling and projection do, so that earlier bounds of the same kind remain.

    Attributes:
        noises: noise that was added, in order.
        bit_epsilon: the smallest epsilon with which each click was randomised; infinite without.
        metric_epsilon: the smallest epsilon with which each metric was randomised; infinite without.
        at_least: fewest messages of a secure sum; None if the server gets each message.
        grid: step of the grid that messages lie on when they are sent, 0 if on none.
        key_shares: which clients can open a message of a secure sum together; None if none can.
        sum_noises: noise that was added to the sums of all rounds, in order.
        revealed: the learner whose messages reveal their clients' draws; None without.
    """

    def __init__(self, events: Iterable[PrivacyEvent], parameters: int) -> None:
        """Go through the events in their order."""
        self.noises: list[ProtectiveNoise] = []
        self.bit_epsilon = math.inf
        self.metric_epsilon = math.inf
        self.at_least: int | None = None
        self.grid = 0.0
        self.key_shares: KeyShares | None = None
        self.sum_noises: list[SumNoise] = []
        self.revealed: str | None = None
        self._parameters = parameters
        self._inside = dict.fromkeys(KINDS, Norms())
        self._apart = Norms()
        self._why = "nothing bounds the messages before the noise"
        self._sum_changed: str | None = None
        self._rounds_noise = False
        for event in events:
            if isinstance(event, RevealedDraws):
                self.revealed = event.by
            elif isinstance(event, FloatRounding):
                self._sent_as(event.format)
            else:
                self._take(event)

    @property
    def shows_last_bits(self) -> bool:
        """Whether single messages carry continuous noise in float64, and nothing puts them on a grid."""
        return self._rounds_noise and self.grid == 0 and self.at_least is None

    def _take(self, event: PrivacyEvent) -> None:
        match event:
            case ClickRandomization():
                self.bit_epsilon = min(self.bit_epsilon, event.epsilon)
            case MetricRandomization():
                self.metric_epsilon = min(self.metric_epsilon, event.epsilon)
            case MessageAggregation():
                self.at_least = max(self.at_least or 1, event.at_least)
                self.key_shares = event.key_shares or self.key_shares
            case NoiseAddition():
                self._noised(event.law)
            case GridRounding():
                self._rounded(event)
            case NormBound():
                self._bounded(event)
            case NormScaling():
                self._resized(event)
            case CorrelatedNoise():
                self._sum_noised(event)
            case OpaqueChange():
                self._opaque(event.mechanism)

    def _farthest(self) -> Norms:
        """How far apart two messages may be now."""
        apart = self._apart
        for kind in KINDS:
            apart = apart.within(self._inside[kind].times(2.0))
        return apart.tightened(self._parameters)

    def _sum_noised(self, event: CorrelatedNoise) -> None:
        why = self._sum_changed or self._why
        apart = Norms() if self._sum_changed else self._farthest()
        self.sum_noises.append(SumNoise(event=event, apart=apart, unbounded=why))

    def _noised(self, law: AdditiveNoise) -> None:
        self._apart = self._farthest()
        self.noises.append(ProtectiveNoise(law=law, apart=self._apart, unbounded=self._why, grid=self.grid))
        # Noise can carry a message anywhere, so no ball holds it any more. Two neighbours with the same noise
        # are still no farther apart than before.
        self._inside = dict.fromkeys(KINDS, Norms())
        self._why = "nothing bounds the messages between the two noises"
        self.grid = _common_grid(self.grid, law.grid)

    def _rounded(self, event: GridRounding) -> None:
        if whole_multiple(self.grid, event.step):
            return  # each coordinate is a multiple of the step already
        move = event.step * (0.5 if event.nearest else 1.0)
        self._inside = {kind: norms.moved(move, self._parameters) for kind, norms in self._inside.items()}
        self._apart = self._apart.moved(2.0 * move, self._parameters)
        self.grid = event.step
        self._spoil("each message is rounded after its noise", also_in_sum=True)

    def _sent_as(self, number_format: str) -> None:
        """Numbers on a grid stay what they are, unless they need more digits; others are rounded.

        A share of noise with a pole at 0 is mostly too small to change a coordinate, so that the low bits of
        the sum of rounded messages are those of single coordinates.
        """
        digits = DIGITS[number_format]
        continuous = any(noise.law.grid == 0 for noise in self.noises)
        self._rounds_noise |= continuous and digits == DIGITS["float64"]
        widest = max((math.sqrt(noise.law.variance) for noise in self.noises), default=0.0)
        if self.grid > 0 and _holds(digits, self.grid, widest):
            return
        self.grid = 0.0
        moved = 1.0 + 2.0**-digits
        self._inside = {kind: norms.times(moved) for kind, norms in self._inside.items()}
        how = (
            f"each message is rounded to {number_format} after its noise, most of which changes no digit "
            "of it (noise on a grid, such as skellam, has a proof under secure-aggregation)"
        )
        self.noises = [
            replace(noise, spoilt=noise.spoilt or how)
            if noise.law.grid > 0 or noise.law.has_pole or _drowns(noise, digits)
            else noise
            for noise in self.noises
        ]

    def _bounded(self, event: NormBound) -> None:
        if not event.always and event.of == "model":
            self._only(event.of)
            self._why = "a client without a step sends the global model, which may lie outside the ball"
        else:
            self._only(event.of)
            ball = Norms.of_ball(event.norm, event.ord)
            self._inside[event.of] = self._inside[event.of].within(ball).tightened(self._parameters)
        self._spoil("each message is clipped after its noise")

    def _resized(self, event: NormScaling) -> None:
        self._only(event.of)
        self._inside[event.of] = self._inside[event.of].times(event.factor)
        self._spoil("each message is resized after its noise")

    def _opaque(self, mechanism: str) -> None:
        if self.at_least is not None:
            self._sum_changed = f"{mechanism} does not declare what it does to the sum before the noise"
            return
        # Noise on a sum is the last stage: what follows it gets the messages, too, and may release them.
        why = f"{mechanism} may use messages without the noise on their sum"
        self.sum_noises = [replace(noise, apart=Norms(), unbounded=why) for noise in self.sum_noises]
        self._only(None)
        self._why = f"{mechanism} does not declare what it does to messages"
        self._spoil(f"{mechanism} changes each message after its noise")

    def _only(self, of: str | None) -> None:
        """Drop all bounds but those of one kind."""
        self._inside = {kind: norms if kind == of else Norms() for kind, norms in self._inside.items()}
        self._apart = Norms()
        self.grid = 0.0

    def _spoil(self, how: str, *, also_in_sum: bool = False) -> None:
        """Record what changed single messages after their noise.

        Behind a secure sum links act on the sum. The sum's own encoding still acts on single messages.
        """
        if self.at_least is not None and not also_in_sum:
            return
        self.noises = [noise if noise.spoilt else replace(noise, spoilt=how) for noise in self.noises]


def _common_grid(one: float, other: float) -> float:
    """The grid of a sum of two numbers, each on a grid of its own; 0 where neither grid holds the other."""
    if whole_multiple(other, one):
        return one
    return other if whole_multiple(one, other) else 0.0


_RANGE = 64  # deviations of noise on a grid that must be exact: practically all of it lies within them


def _drowns(noise: ProtectiveNoise, digits: int) -> bool:
    """Whether rounding moves a coordinate by about as much as the noise of one message, or more."""
    unit = noise.apart.linf * 2.0**-digits
    return math.sqrt(noise.law.variance) < _RANGE * unit


def _holds(digits: int, grid: float, deviation: float) -> bool:
    """Whether a format holds all multiples of a grid up to that many deviations of noise exactly."""
    mantissa, exponent = math.frexp(grid)
    odd = int(mantissa * 2**53)
    unit = math.ldexp(odd & -odd, exponent - 53)
    return 2.0**digits * unit >= _RANGE * max(deviation, grid)
