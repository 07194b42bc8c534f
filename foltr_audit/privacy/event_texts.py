"""Privacy events as text, as a trace's header stores them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from foltr_audit.privacy.events import (
    ClickRandomization,
    CorrelatedNoise,
    GridRounding,
    KeyShares,
    MessageAggregation,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyEvent,
)
from foltr_audit.privacy.noise import parse_law
from foltr_audit.privacy.noise.base import plain

# A sign or `nan` does not match: radii, factors, steps and epsilons are never below 0, and a text
# may come from a trace of another system.
_NUMBER = r"(inf|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_OF = "of=(model|update)"


@dataclass(frozen=True, kw_only=True)
class UnknownNoise:
    """`NoiseAddition` by a law that `parse_law` does not know.

    Attributes:
        law: the law's text.
    """

    law: str


def event_text(event: PrivacyEvent) -> str:
    """One event as text.

    >>> event_text(NormBound(norm=1.5, ord=2, of="model"))
    'bounded:of=model,norm=1.5,ord=2'
    """
    match event:
        case NormBound():
            always = "" if event.always else ",not-always"
            return f"bounded:of={event.of},norm={plain(event.norm)},ord={plain(event.ord)}{always}"
        case NormScaling():
            return f"resized:of={event.of},factor={plain(event.factor)}"
        case GridRounding():
            return f"rounded:step={plain(event.step)}{',nearest' if event.nearest else ''}"
        case NoiseAddition():
            return f"noised:{event.law.text}"
        case ClickRandomization():
            return f"randomised-clicks:eps={plain(event.epsilon)}"
        case MetricRandomization():
            return f"randomised-metrics:eps={plain(event.epsilon)}"
        case MessageAggregation():
            shares = event.key_shares
            opened = "" if shares is None else f",neighbours={shares.neighbours},needed={shares.needed}"
            return f"summed:at-least={event.at_least}{opened}"
        case CorrelatedNoise():
            return f"noised-sum:sigma={plain(event.sigma)},bands={event.bands}"
        case OpaqueChange():
            return f"opaque:{event.mechanism}"


def parse_event(text: str) -> PrivacyEvent | UnknownNoise | None:
    """The event that a text names, or None.

    >>> parse_event("rounded:step=0.001,nearest")
    GridRounding(step=0.001, nearest=True)
    """
    for form, made in _FORMS:
        # Without DOTALL the name of an opaque mechanism that holds a line break would match no form.
        match = re.fullmatch(form, text, flags=re.DOTALL)
        if match is not None:
            return made(*match.groups())
    return None


def _noised(text: str) -> NoiseAddition | UnknownNoise:
    law = parse_law(text)
    return UnknownNoise(law=text) if law is None else NoiseAddition(law=law)


def _summed(at_least: str, neighbours: str | None, needed: str | None) -> MessageAggregation:
    if neighbours is None or needed is None:
        return MessageAggregation(at_least=int(at_least))
    return MessageAggregation(
        at_least=int(at_least), key_shares=KeyShares(neighbours=int(neighbours), needed=int(needed))
    )


_FORMS: tuple[tuple[str, Callable[..., PrivacyEvent | UnknownNoise]], ...] = (
    (
        f"bounded:{_OF},norm={_NUMBER},ord={_NUMBER}(,not-always)?",
        lambda of, norm, order, never: NormBound(
            norm=float(norm), ord=float(order), of=of, always=never is None
        ),
    ),
    (f"resized:{_OF},factor={_NUMBER}", lambda of, factor: NormScaling(factor=float(factor), of=of)),
    (
        f"rounded:step={_NUMBER}(,nearest)?",
        lambda step, nearest: GridRounding(step=float(step), nearest=nearest is not None),
    ),
    ("noised:(.+)", _noised),
    (f"randomised-clicks:eps={_NUMBER}", lambda eps: ClickRandomization(epsilon=float(eps))),
    (f"randomised-metrics:eps={_NUMBER}", lambda eps: MetricRandomization(epsilon=float(eps))),
    # Fifteen digits bound the integers: `int` would read thousands of them, and raise an error beyond.
    ("summed:at-least=([0-9]{1,15})(?:,neighbours=([0-9]{1,15}),needed=([0-9]{1,15}))?", _summed),
    (
        f"noised-sum:sigma={_NUMBER},bands=([0-9]{{1,15}})",
        lambda sigma, bands: CorrelatedNoise(sigma=float(sigma), bands=int(bands)),
    ),
    ("opaque:(.*)", lambda mechanism: OpaqueChange(mechanism=mechanism)),
)
