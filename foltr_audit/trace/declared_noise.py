"""What a trace's header declares about noise: its law, and what else the defenses do to messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting.walk import (
    CHANGES_MESSAGES,
    ChainAction,
    action_of,
    since_density,
    trailing_noise,
)
from foltr_audit.privacy.events import parse_event
from foltr_audit.privacy.noise import AdditiveNoise, parse_law
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.arrays import Floats

_TAILS = (1.0, 0.9, 0.75, 0.63, 0.5, 0.25, 0.1, 0.03)
"""Shares of the noise outside of the smallest window that windows leave outside."""

_NEXT_TO_NOTHING = 1e-12  # a window that leaves less than this outside can never hold too many


@dataclass(frozen=True)
class NoiseWindow:
    """Noise lies less than `half` from 0, or from any other point, with at most this probability."""

    half: float
    probability: float


@dataclass(frozen=True, kw_only=True)
class NoiseDeclaration:
    """What a header says about the noise of one message.

    Attributes:
        text: the law as the header has it; None where it has none.
        chain: the names of the defenses, for messages to people; None where the header has none.
        acts: what happens to a message, in order; None where the header is silent about that.
    """

    text: str | None
    chain: str | None = None
    acts: tuple[ChainAction, ...] | None = None

    @classmethod
    def of(cls, header: TraceHeader) -> NoiseDeclaration:
        """What a header declares: by its events, or else by the names of its defenses."""
        noise, events = header.knowledge.get("noise"), header.knowledge.get("events")
        law = noise if isinstance(noise, str) and noise != "none" else None
        names = _texts(header.knowledge.get("defense"))
        if noise == "none" and names is None and events is None:
            names = [NO_DEFENSE]
        acts = None
        if isinstance(events, list):
            acts = tuple(action_of(parse_event(text), text) for text in events)
            law = law or "+".join(act.law for act in acts if act.law is not None) or None
        elif names is not None:
            acts = _acts_of_names(names, law, header.parameters)
        return cls(text=law, chain=None if names is None else "+".join(names), acts=acts)

    @property
    def is_none(self) -> bool:
        """Whether the header says that nothing adds noise."""
        return self.text is None and self.acts is not None

    @property
    def in_clear(self) -> bool:
        """Whether the header says that a server reads each message as the client made it."""
        acts = (act for act in self.acts or () if act.kind != "sum noise")
        return self.is_none and all(act.kind == "reduction" for act in acts)

    @cached_property
    def last_noise(self) -> tuple[str, ...]:
        """Texts of the laws of the noise that is added last; of all noise where the header gives no order."""
        if self.acts is None:
            return tuple(parts(self.text)) if self.text else ()
        return tuple(act.law or "" for act in trailing_noise(self.acts))

    @cached_property
    def laws(self) -> tuple[AdditiveNoise, ...]:
        """The laws of the noise that is added last; empty where one of them is not known here."""
        laws = [parse_law(text) for text in self.last_noise]
        known = [law for law in laws if law is not None and law.probability_within(law.scale) is not None]
        return tuple(known) if len(known) == len(laws) else ()

    @property
    def why_not(self) -> str | None:
        """Why messages cannot be compared with the declared law; None where they can."""
        if self.text is None:
            return "the header declares no noise law"
        if not self.last_noise:
            after = [act.text for act in self.acts or () if act.kind in CHANGES_MESSAGES]
            return f"{after[-1] if after else 'what comes'} after {self.text} may change a message"
        declared = {_canonical(text) for text in parts(self.text)}
        if not {_canonical(text) for text in self.last_noise} <= declared:
            last = "+".join(law or "a law that is not stated" for law in self.last_noise)
            return f"the header's noise is {self.text}, and what is added last is {last}"
        if not self.laws:
            return f"the law {'+'.join(self.last_noise)} is not known here"
        return None if self.windows else f"nearly all noise of {'+'.join(self.last_noise)} is 0"

    @cached_property
    def cause_of_equality(self) -> ChainAction | None:
        """The first act that may make coordinates equal on its own, so that equal ones prove nothing."""
        kinds = (*CHANGES_MESSAGES, "grid noise", "unknown noise")
        return next((act for act in since_density(self.acts or ()) if act.kind in kinds), None)

    def chance_of_equal(self, coordinates: int) -> float | None:
        """How likely two messages are equal by chance, at most; None where that is not known.

        Given one of them, each coordinate of the other agrees with at most the probability of the smallest
        window of a law on a grid.
        """
        if self.cause_of_equality is None or self.is_none:
            return 0.0
        if self.why_not is not None:
            return None
        return float(self.windows[0].probability ** coordinates)

    def within(self, half: ArrayLike) -> Floats | None:
        """At most how probable it is that noise lies less than each half-width from 0, or from any point.

        For a sum of independent terms that is at most what it is for each of them: whatever the others are,
        the sum lies in a window exactly if this term lies in a moved one.
        """
        terms = [p for law in self.laws if (p := law.concentration(half)) is not None]
        return np.min(terms, axis=0) if terms and len(terms) == len(self.laws) else None

    @cached_property
    def windows(self) -> tuple[NoiseWindow, ...]:
        """Windows from the smallest one that says something to one that holds nearly all noise."""
        if not self.laws:
            return ()
        halves = np.unique(np.concatenate([law.half_widths() for law in self.laws]))
        probabilities = self.within(halves)
        if probabilities is None:
            return ()
        first = float(probabilities[0])
        indices = np.searchsorted(probabilities, first + (1.0 - first) * (1.0 - np.array(_TAILS)))
        windows = [
            NoiseWindow(half=float(halves[index]), probability=float(probabilities[index]))
            for index in indices.tolist()
            if index < halves.size and 1.0 - probabilities[index] > _NEXT_TO_NOTHING
        ]
        return tuple(dict.fromkeys(windows))

    def ratios_of_weaker(self, share: float) -> Floats:
        """How many times more numbers noise of a share of the variance has in each window, at least."""
        weaker = [law.with_variance(share) for law in self.laws]
        halves = self._halves * (1 - 1e-12) / len(weaker)
        inside = [p for law in weaker if (p := law.probability_within(halves)) is not None]
        return np.prod(inside, axis=0) / self._at_most if len(inside) == len(weaker) else np.ones(halves.size)

    def ratios_of_shared(self) -> Floats:
        """How many times more differences of two numbers with the same noise lie in each window, at least."""
        shared = [p for law in self.laws if (p := law.summed(2).concentration(self._halves)) is not None]
        apart = np.min([self._at_most, *shared], axis=0)
        return np.asarray(1.0 / apart)

    @property
    def _halves(self) -> Floats:
        return np.array([window.half for window in self.windows])

    @property
    def _at_most(self) -> Floats:
        return np.array([window.probability for window in self.windows])


def _texts(chain: object) -> list[str] | None:
    if isinstance(chain, str):
        return [chain]
    return list(chain) if isinstance(chain, list) else None


def _canonical(text: str) -> str:
    law = parse_law(text)
    return text if law is None else law.text


def _acts_of_names(chain: Sequence[str], noise: str | None, parameters: int) -> tuple[ChainAction, ...]:
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
    acts = []
    for act in actions:
        text = next(own, None) if act.is_noise else None
        law = None if text is None else parse_law(text)
        on_grid = law is not None and law.grid > 0
        acts.append(replace(act, law=text if on_grid == (act.kind == "grid noise") else None))
    return tuple(acts)


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
    yield from (action_of(event, text) for event in events)
