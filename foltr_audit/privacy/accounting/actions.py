"""What each event does to a message, in the words that audits and the leak lint share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from foltr_audit.privacy.event_texts import UnknownNoise, event_text
from foltr_audit.privacy.events import (
    ClickRandomization,
    CorrelatedNoise,
    GridRounding,
    MessageAggregation,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyEvent,
)
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
]
"""`noise`: with a density; `unknown noise`: of a law that is not known here; `reduction`: clipping, scaling,
leaving coordinates out; `opaque`: a change that states nothing about itself; `unknown`: one that this version
cannot read; `randomisation`: of clicks or metrics; `sum noise`: on the sum, not on messages."""

CHANGES_MESSAGES: tuple[Kind, ...] = ("rounding", "reduction", "opaque", "unknown")
"""Kinds other than noise that change a message."""

_NOISE: tuple[Kind, ...] = ("noise", "grid noise", "unknown noise")

_KINDS: dict[type, Kind] = {
    GridRounding: "rounding",
    NormBound: "reduction",
    NormScaling: "reduction",
    OpaqueChange: "opaque",
    ClickRandomization: "randomisation",
    MetricRandomization: "randomisation",
    MessageAggregation: "sum",
    CorrelatedNoise: "sum noise",
}


@dataclass(frozen=True)
class ChainAction:
    """One thing that happens to a message.

    Attributes:
        kind: what it is.
        text: the event or defense as text.
        law: of noise, its law as text; None where it is not stated.
    """

    kind: Kind
    text: str
    law: str | None = None

    @property
    def is_noise(self) -> bool:
        """Whether it adds noise to messages."""
        return self.kind in _NOISE


def action_of(event: PrivacyEvent | UnknownNoise | None, text: str | None = None) -> ChainAction:
    """What an event does to a message; None is an event that could not be read from `text`."""
    if isinstance(event, NoiseAddition):
        kind: Kind = "grid noise" if event.law.grid > 0 else "noise"
        return ChainAction(kind, text or event_text(event), event.law.text)
    if isinstance(event, UnknownNoise):
        return ChainAction("unknown noise", text or event.law, event.law)
    if event is None:
        return ChainAction("unknown", text or "")
    kind = next(kind for known, kind in _KINDS.items() if isinstance(event, known))
    return ChainAction(kind, text or event_text(event))


def actions_of(events: Iterable[PrivacyEvent]) -> tuple[ChainAction, ...]:
    """What each event does to a message, in order."""
    return tuple(action_of(event) for event in events)


def trailing_noise(actions: Sequence[ChainAction]) -> tuple[ChainAction, ...]:
    """The noise that is added last: what comes after any other change of a message."""
    found: list[ChainAction] = []
    for action in reversed(actions):
        if action.kind in CHANGES_MESSAGES:
            break
        if action.is_noise:
            found.append(action)
    return tuple(reversed(found))


def since_density(actions: Sequence[ChainAction]) -> tuple[ChainAction, ...]:
    """What comes after the last noise with a density, which makes all numbers different; else everything."""
    places = [place for place, action in enumerate(actions) if action.kind == "noise"]
    return tuple(actions[places[-1] + 1 :] if places else actions)


def only_noise(events: Sequence[PrivacyEvent]) -> AdditiveNoise | None:
    """The law of the only noise, if nothing but rounding and sums comes after it; else None."""
    laws = [event.law for event in events if isinstance(event, NoiseAddition)]
    actions = [act for act in actions_of(events) if act.kind not in ("rounding", "sum")]
    return laws[0] if len(laws) == 1 and actions[-1].is_noise else None
