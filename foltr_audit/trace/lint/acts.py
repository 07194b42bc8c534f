"""What a chain of defenses does to messages, as far as a trace's header says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from foltr_audit.privacy.event_texts import UnknownNoise, parse_event
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

_OF_NAMES: dict[str, tuple[Kind, ...]] = {
    "none": (),
    "clip": ("reduction",),
    "top-k": ("reduction",),
    "random-k": ("reduction",),
    "quantise": ("opaque",),
    "sign": ("opaque",),
    "laplace": ("noise",),
    "gamma-laplace": ("noise",),
    "gaussian": ("noise",),
    "gaussian-shares": ("noise",),
    "discrete-gaussian": ("rounding", "grid noise"),
    "skellam": ("rounding", "grid noise"),
    "click-rr": ("randomisation",),
    "metric-rr": ("randomisation",),
    "secure-aggregation": ("sum",),
}
"""Built-in defenses of traces that were written before headers had events."""


def acts_of_names(chain: Sequence[str], noise: str | None) -> tuple[ChainAction, ...]:
    """What the defenses of a header without events do; the laws of its `noise` belong to them in order."""
    texts = [part.strip() for text in chain for part in parts(text)]
    kinds = [(kind, text) for text in texts for kind in _OF_NAMES.get(text.partition(":")[0], ("unknown",))]
    laws = parts(noise) if noise else []
    noisy = sum(kind in _NOISE for kind, _ in kinds)
    own: Iterator[str] = iter(laws if len(laws) == noisy else [])
    acts = []
    for kind, text in kinds:
        law = next(own, None) if kind in _NOISE else None
        fits = law is not None and is_lattice(law) == (kind == "grid noise")
        acts.append(ChainAction(kind, text, law if fits else None))
    return tuple(acts)


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
