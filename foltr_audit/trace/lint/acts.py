"""What a chain of defenses does to messages, as far as a trace's header says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting.actions import ChainAction, action_of
from foltr_audit.privacy.event_texts import parse_event
from foltr_audit.privacy.noise import parse_law
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.rng import Streams


def acts_of_events(texts: Sequence[str]) -> tuple[ChainAction, ...]:
    """What the fact `events` says, in order."""
    return tuple(action_of(parse_event(text), text) for text in texts)


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
    yield from (action_of(event, text) for event in events)


def is_lattice(law_text: str) -> bool:
    """Whether a law's draws lie on a grid."""
    law = parse_law(law_text)
    return law is not None and law.grid > 0
