"""What a chain of defenses does to messages, as far as a trace's header says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import UsageError
from foltr_audit.privacy.event_texts import UnknownNoise, event_text, parse_event
from foltr_audit.privacy.events import (
    ClickRandomization,
    GridRounding,
    MessageAggregation,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
)
from foltr_audit.privacy.noise import parse_law
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams

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
]
"""`noise`: with a density; `unknown noise`: of a law that is not known here; `reduction`: clipping, scaling,
leaving coordinates out; `opaque`: a change that states nothing about itself; `unknown`: one that this version
cannot read; `randomisation`: of clicks or metrics."""

CHANGES_MESSAGES: tuple[Kind, ...] = ("rounding", "reduction", "opaque", "unknown")
"""Kinds other than noise that change a message."""


@dataclass(frozen=True)
class ChainAction:
    """One thing that happens to a message.

    Attributes:
        kind: what it is.
        text: the event or defense as the header has it.
        law: of noise, its law as text; None where the header does not state it.
    """

    kind: Kind
    text: str
    law: str | None = None

    @property
    def is_noise(self) -> bool:
        """Whether it adds noise to messages."""
        return self.kind in _NOISE


_NOISE: tuple[Kind, ...] = ("noise", "grid noise", "unknown noise")


def acts_of_events(texts: Sequence[str]) -> tuple[ChainAction, ...]:
    """What the fact `events` says, in order."""
    return tuple(_act(text) for text in texts)


def _act(text: str) -> ChainAction:
    event = parse_event(text)
    match event:
        case NoiseAddition(law=law):
            return ChainAction("grid noise" if law.grid > 0 else "noise", text, law.text)
        case UnknownNoise(law=unknown):
            return ChainAction("unknown noise", text, unknown)
    return ChainAction(_OF_EVENTS.get(type(event), "unknown"), text)


_OF_EVENTS: dict[type, Kind] = {
    GridRounding: "rounding",
    NormBound: "reduction",
    NormScaling: "reduction",
    OpaqueChange: "opaque",
    ClickRandomization: "randomisation",
    MetricRandomization: "randomisation",
    MessageAggregation: "sum",
}


def acts_of_names(chain: Sequence[str], noise: str | None, parameters: int) -> tuple[ChainAction, ...]:
    """What the defenses of a header without events do; the laws of its `noise` belong to them in order.

    Args:
        chain: texts of the defenses.
        noise: laws of the noise, joined by `+`.
        parameters: number of coordinates of a message.
    """
    actions = [act for text in chain for part in parts(text) for act in _of_defense(part.strip(), parameters)]
    laws = parts(noise) if noise else []
    noisy = sum(act.is_noise for act in actions)
    own: Iterator[str] = iter(laws if len(laws) == noisy else [])
    found = []
    for act in actions:
        law = next(own, None) if act.is_noise else None
        fits = law is not None and is_lattice(law) == (act.kind == "grid noise")
        found.append(replace(act, law=law if fits else None))
    return tuple(found)


def _of_defense(text: str, parameters: int) -> Iterator[ChainAction]:
    """What a registered defense declares; one unknown action if the text describes none."""
    context = RoundContext(
        round=0,
        shares=1,
        clients=np.empty(0, dtype=np.int64),
        counts=np.empty(0, dtype=np.int64),
        parameters=np.zeros(parameters),
        source=Streams(0),
    )
    try:
        events = DefenseChain((make(Defense, text),)).events(context)
    except UsageError:
        yield ChainAction("unknown", text)
        return
    yield from (replace(_act(event_text(event)), text=text) for event in events)


def trailing_noise(acts: Sequence[ChainAction]) -> tuple[ChainAction, ...]:
    """The noise that is added last: what comes after any other change of a message."""
    found: list[ChainAction] = []
    for act in reversed(acts):
        if act.kind in CHANGES_MESSAGES:
            break
        if act.is_noise:
            found.append(act)
    return tuple(reversed(found))


def since_density(acts: Sequence[ChainAction]) -> tuple[ChainAction, ...]:
    """What comes after the last noise with a density, which makes all numbers different; else everything."""
    places = [place for place, act in enumerate(acts) if act.kind == "noise"]
    return tuple(acts[places[-1] + 1 :] if places else acts)


def is_lattice(law_text: str) -> bool:
    """Whether a law's draws lie on a grid."""
    law = parse_law(law_text)
    return law is not None and law.grid > 0
