"""What is known exactly about two neighbouring inputs: the noise between them, and their privacy loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.canaries import Canary, LogCanary, patterns_of
from foltr_audit.auditing.games import Games
from foltr_audit.auditing.scripted import Floats
from foltr_audit.noise_laws import AddedNoise, Gaussian
from foltr_audit.plugins import PrivacyEvent
from foltr_audit.records.privacy import Noised, Opaque, RandomisedClicks, Rounded, Summed

_MOST_REPORTS = 2**12


@dataclass(frozen=True)
class Noise:
    """What stands between the exact messages of two inputs and what an observer sees of them.

    Attributes:
        law: the law of the only noise, if what is seen is the message without noise plus such noise.
        rounded: but for rounding, so that the law says what is likely and not what is possible.
        certain: nothing random happens to a message.
        reports: the clicks alone are randomised, with this largest log ratio of a reported bit.
    """

    law: AddedNoise | None = None
    rounded: bool = False
    certain: bool = False
    reports: float | None = None

    @classmethod
    def of(cls, events: tuple[PrivacyEvent, ...], summed: int | None) -> Noise:
        """Of a chain's events; `summed` is the number of messages in a sum, None for a single one."""
        random = [event for event in events if not isinstance(event, Summed | Rounded)]
        rounded = any(isinstance(event, Rounded) for event in events)
        noises = [event for event in random if isinstance(event, Noised)]
        clicks = [event for event in random if isinstance(event, RandomisedClicks)]
        unknown = any(isinstance(event, Opaque) for event in random)
        if unknown or len(noises) + len(clicks) > 1:
            return cls()
        if clicks:
            return cls() if rounded else cls(reports=clicks[0].epsilon)
        if not noises:
            return cls() if rounded else cls(certain=True)
        if random[-1] is not noises[0]:
            return cls()
        law = noises[0].law
        return cls(law=law if summed is None else law.summed(summed), rounded=rounded)


def exact_epsilon(noise: Noise, games: Games, canary: Canary, delta: float) -> float | None:
    """The privacy loss of exactly these two inputs over all messages; None where it is not computable.

    For delta 0 it is the largest log ratio of their densities; for Gaussian noise also with a delta.
    """
    shifts = [np.subtract(*games.means(canary, message)) for message in range(games.messages)]
    if noise.certain:
        return math.inf if any(np.any(shift != 0) for shift in shifts) else 0.0
    if noise.reports is not None:
        loss = _loss_of_reports(noise.reports, games, canary) if delta == 0 else None
        return None if loss is None else games.messages * loss
    if noise.law is None or noise.rounded:
        return None
    if isinstance(noise.law, Gaussian) and delta > 0:
        from foltr_audit.gaussian_dp import gaussian_epsilon

        mu = math.sqrt(sum(float(shift @ shift) for shift in shifts)) / noise.law.sigma
        return gaussian_epsilon(mu, delta)
    if delta > 0:
        return None
    return float(sum(noise.law.worst_loss(shift).sum() for shift in shifts))


def _loss_of_reports(epsilon: float, games: Games, canary: Canary) -> float | None:
    """By all click patterns that could be reported: the log ratio of the worst message of one interaction.

    Patterns that make the same message cannot be told apart, and their probabilities add up. None where
    several interactions differ.
    """
    if not isinstance(canary, LogCanary):
        return math.inf
    queries, clicks = canary.queries, canary.clicks
    width = int((games.clients.lists(queries[:1, 0]) >= 0).sum())
    if np.any(queries[0] != queries[1]):
        return math.inf
    differ = [b for b in range(queries.shape[1]) if np.any(clicks[0, b] != clicks[1, b])]
    if len(differ) != 1 or 2**width > _MOST_REPORTS:
        return None
    reports = patterns_of(clicks.shape[2], width)
    rows = np.arange(reports.shape[0])
    every = np.repeat(clicks[:1], rows.size, axis=0)
    every[:, differ[0]] = reports
    context = games.clients.context(0, rows, interactions=queries.shape[1])
    asked = np.repeat(queries[:1], rows.size, axis=0)
    messages = games.clients.quiet_message(games.clients.local(asked, every, context, games.clients.quiet), 0)
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    wrong = [(reports != clicks[h, differ[0]])[:, :width].sum(axis=1) for h in (0, 1)]
    chances = [keep ** (width - flips) * (1.0 - keep) ** flips for flips in wrong]
    _, same = np.unique(messages, axis=0, return_inverse=True)
    sums = [np.bincount(same.ravel(), weights=chance) for chance in chances]
    return float(np.abs(np.log(sums[1]) - np.log(sums[0])).max())


def log_ratio(law: AddedNoise, seen: Floats, means: Floats) -> NDArray[np.float64]:
    """`ln p(seen | input 1) - ln p(seen | input 0)` of each row of (N, P)."""
    return np.asarray((law.log_density(seen - means[1]) - law.log_density(seen - means[0])).sum(axis=1))
