"""Built-in mechanisms that are broken on purpose: they declare one thing and do another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, RoundContext
from foltr_audit.core.plugins.answers import events_of
from foltr_audit.privacy.events import ClickRandomization, NoiseAddition
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats

LESS, HALF = 0.85, 2.0**-0.5
"""Factors of the noise: 15 % less of it, and half of its variance."""

Change = Callable[[Floats], Floats]
NoiseFault = Callable[[Defense, Floats, RoundContext], Floats]
ClickFault = Callable[[Defense, Bools, NDArray[np.int64], int, RoundContext], Bools]


def broken(setup: Setup, fault: str) -> Setup:
    """The same experiment whose links that randomise have a fault of `NOISE_FAULTS` or `CLICK_FAULTS`."""
    context = setup.context(0, np.empty(0, np.int64), 1, np.zeros(setup.ranker.n_parameters))
    links = tuple(_broken(link, fault, context) for link in setup.chain.defenses)
    found = Setup(setup.spec, setup.collection)
    vars(found)["chain"] = DefenseChain(links)
    return found


def _broken(link: Defense, fault: str, context: RoundContext) -> Defense:
    events = events_of(link, context)
    if any(isinstance(event, NoiseAddition) for event in events):
        return _with(link, "on_message", lambda models, own: NOISE_FAULTS[fault](link, models, own))
    if any(isinstance(event, ClickRandomization) for event in events):
        return _with(link, "on_clicks", lambda *given: CLICK_FAULTS[fault](link, *given))
    return link


def _with(link: Defense, hook: str, act: Callable[..., Any]) -> Defense:
    """An heir of a link's class with other code; it inherits what that declares."""
    kind = type(link)

    def own(self: Defense, *given: Any) -> Any:
        del self
        return act(*given)

    heir: type[Defense] = type(kind.__name__, (kind,), {hook: own, "__module__": __name__})
    return heir(**link.model_dump())


# --- noise -----------------------------------------------------------------------------------------


def _drawn(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return link.on_message(models, context) - models


def _changed(link: Defense, models: Floats, context: RoundContext, change: Change) -> Floats:
    """Models with the link's noise after a change; noise on a grid stays there."""
    step = getattr(link, "step", None)
    at = models if step is None else step * np.rint(models / step)
    noise = change(link.on_message(models, context) - at)
    return np.asarray(at + (noise if step is None else step * np.rint(noise / step)))


def _scaled(factor: float) -> NoiseFault:
    return lambda link, models, context: _changed(link, models, context, lambda noise: factor * noise)


def _first_round_only(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return _changed(link, models, context, lambda noise: noise * (context.round == 0))


def _ten_rounds(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return link.on_message(models, replace(context, round=context.round % 10))


def _opposite(link: Defense, models: Floats, context: RoundContext) -> Floats:
    """Of every four clients, the third has the first one's noise with the opposite sign."""
    turned = context.clients % 4 == 2
    owner = replace(context, clients=np.where(turned, context.clients - 2, context.clients))
    sign = np.where(turned, -1.0, 1.0)[:, np.newaxis]
    return _changed(link, models, owner, lambda noise: sign * noise)


def _cancelling(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return _changed(link, models, context, lambda noise: noise - noise.mean(axis=0))


def _one_coordinate(link: Defense, models: Floats, context: RoundContext) -> Floats:
    weak = np.where(np.arange(models.shape[1]) == models.shape[1] // 2, 0.5, 1.0)
    return _changed(link, models, context, lambda noise: weak * noise)


def _by_interactions(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return _changed(link, models, context, lambda noise: noise / context.counts[:, np.newaxis])


def _reused(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return link.on_message(models, replace(context, round=0))


def _on_changes(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return models + np.where(models != context.parameters, _drawn(link, models, context), 0.0)


def _unless_silent(link: Defense, models: Floats, context: RoundContext) -> Floats:
    silent = np.all(models == context.parameters, axis=1, keepdims=True)
    return models + np.where(silent, 0.0, _drawn(link, models, context))


def _one_number(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return models + np.repeat(_drawn(link, models, context)[:, :1], models.shape[1], axis=1)


def _one_client(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return models + np.repeat(_drawn(link, models, context)[:1], len(models), axis=0)


def _own_seed(link: Defense, models: Floats, context: RoundContext) -> Floats:
    return link.on_message(models, replace(context, source=Streams(7)))


NOISE_FAULTS: dict[str, NoiseFault] = {
    "15 % less noise": _scaled(LESS),
    "half the variance": _scaled(HALF),
    "the same noise in every round": _reused,
    "noise on changed coordinates only": _on_changes,
    "no noise if nothing was learnt": _unless_silent,
    "one number for all coordinates": _one_number,
    "one draw for all clients": _one_client,
    "a seed of its own": _own_seed,
    "noise in the first round only": _first_round_only,
    "the same noise every ten rounds": _ten_rounds,
    "the noise of another client with the opposite sign": _opposite,
    "noise that cancels over the cohort": _cancelling,
    "half the noise on one coordinate": _one_coordinate,
    "less noise for more interactions": _by_interactions,
}
"""What links may do instead of the noise that they declare."""


# --- clicks ----------------------------------------------------------------------------------------


def _fewer_flips(
    link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
) -> Bools:
    flips = link.on_clicks(clicks, shown, step, context) ^ clicks
    kept = context.streams("kept").uniform(clicks.shape[1]) < LESS
    return np.asarray(clicks ^ (flips & kept))


def _same_flips(
    link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
) -> Bools:
    return link.on_clicks(clicks, shown, step, replace(context, round=0))


def _one_flip(
    link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
) -> Bools:
    flips = link.on_clicks(clicks, shown, step, context) ^ clicks
    return np.asarray((clicks ^ flips[:, :1]) & (shown >= 0))


def _clicks_only(
    link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
) -> Bools:
    return np.asarray(link.on_clicks(clicks, shown, step, context) & clicks)


def _own_flips(
    link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
) -> Bools:
    return link.on_clicks(clicks, shown, step, replace(context, source=Streams(7)))


def _honest_unless(leaves: Callable[[Bools, int, RoundContext], Bools]) -> ClickFault:
    """Lists that are reported as they are."""

    def reused(
        link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
    ) -> Bools:
        reported = link.on_clicks(clicks, shown, step, context)
        return np.where(leaves(clicks, step, context)[:, np.newaxis], clicks, reported)

    return reused


def _same_later(
    link: Defense, clicks: Bools, shown: NDArray[np.int64], step: int, context: RoundContext
) -> Bools:
    return link.on_clicks(clicks, shown, min(step, 1), context)


CLICK_FAULTS: dict[str, ClickFault] = {
    "15 % fewer lies": _fewer_flips,
    "the same lies in every round": _same_flips,
    "one lie for all places": _one_flip,
    "lies about clicks only": _clicks_only,
    "a seed of its own": _own_flips,
    "lies about the first list only": _honest_unless(lambda clicks, step, _: np.full(len(clicks), step > 0)),
    "lies in the first round only": _honest_unless(
        lambda clicks, _, context: np.full(len(clicks), context.round > 0)
    ),
    "no lies about lists without clicks": _honest_unless(lambda clicks, *_: ~clicks.any(axis=1)),
    "the same lies after the first list": _same_later,
}
"""What links may do instead of the randomised response that they declare."""
