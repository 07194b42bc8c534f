"""Privacy events as text: what a trace's header holds of its chain of defenses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from foltr_audit.privacy.events import (
    Bounded,
    KeyShares,
    Noised,
    Opaque,
    PrivacyEvent,
    RandomisedClicks,
    RandomisedMetrics,
    Resized,
    Rounded,
    Summed,
)
from foltr_audit.privacy.noise import parse_law
from foltr_audit.privacy.noise.base import plain

_NUMBER = r"(inf|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_OF = "of=(model|update)"


@dataclass(frozen=True, kw_only=True)
class UnknownNoise:
    """`Noised` by a law that `parse_law` does not know.

    Attributes:
        law: the law's text.
    """

    law: str


def event_text(event: PrivacyEvent) -> str:
    """One event as text.

    >>> event_text(Bounded(norm=1.5, ord=2, of="model"))
    'bounded:of=model,norm=1.5,ord=2'
    """
    match event:
        case Bounded():
            always = "" if event.always else ",not-always"
            return f"bounded:of={event.of},norm={plain(event.norm)},ord={plain(event.ord)}{always}"
        case Resized():
            return f"resized:of={event.of},factor={plain(event.factor)}"
        case Rounded():
            return f"rounded:step={plain(event.step)}{',nearest' if event.nearest else ''}"
        case Noised():
            return f"noised:{event.law.text}"
        case RandomisedClicks():
            return f"randomised-clicks:eps={plain(event.epsilon)}"
        case RandomisedMetrics():
            return f"randomised-metrics:eps={plain(event.epsilon)}"
        case Summed():
            shares = event.key_shares
            opened = "" if shares is None else f",neighbours={shares.neighbours},needed={shares.needed}"
            return f"summed:at-least={event.at_least}{opened}"
        case Opaque():
            return f"opaque:{event.mechanism}"


def parse_event(text: str) -> PrivacyEvent | UnknownNoise | None:
    """The event that a text names; None where it names none.

    >>> parse_event("rounded:step=0.001,nearest")
    Rounded(step=0.001, nearest=True)
    """
    for form, made in _FORMS:
        match = re.fullmatch(form, text, flags=re.DOTALL)
        if match is not None:
            return made(*match.groups())
    return None


def _noised(text: str) -> Noised | UnknownNoise:
    law = parse_law(text)
    return UnknownNoise(law=text) if law is None else Noised(law=law)


def _summed(at_least: str, neighbours: str | None, needed: str | None) -> Summed:
    if neighbours is None or needed is None:
        return Summed(at_least=int(at_least))
    return Summed(
        at_least=int(at_least), key_shares=KeyShares(neighbours=int(neighbours), needed=int(needed))
    )


_FORMS: tuple[tuple[str, Callable[..., PrivacyEvent | UnknownNoise]], ...] = (
    (
        f"bounded:{_OF},norm={_NUMBER},ord={_NUMBER}(,not-always)?",
        lambda of, norm, order, never: Bounded(
            norm=float(norm), ord=float(order), of=of, always=never is None
        ),
    ),
    (f"resized:{_OF},factor={_NUMBER}", lambda of, factor: Resized(factor=float(factor), of=of)),
    (
        f"rounded:step={_NUMBER}(,nearest)?",
        lambda step, nearest: Rounded(step=float(step), nearest=nearest is not None),
    ),
    ("noised:(.+)", _noised),
    (f"randomised-clicks:eps={_NUMBER}", lambda eps: RandomisedClicks(epsilon=float(eps))),
    (f"randomised-metrics:eps={_NUMBER}", lambda eps: RandomisedMetrics(epsilon=float(eps))),
    ("summed:at-least=([0-9]{1,15})(?:,neighbours=([0-9]{1,15}),needed=([0-9]{1,15}))?", _summed),
    ("opaque:(.*)", lambda mechanism: Opaque(mechanism=mechanism)),
)
