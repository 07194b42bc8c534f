"""Scores of trials: the higher, the more a message looks like that of input 1. Also: a pair's exact loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.canaries import Canary, LogCanary
from foltr_audit.auditing.evaluation import Pair, discriminant
from foltr_audit.auditing.games import GameSimulator, Observation
from foltr_audit.auditing.scripted import GameClients, is_random
from foltr_audit.core.plugins import Attack, Defense, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import UsageError
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.task import checked_answer
from foltr_audit.privacy.accounting.walk import NOISE, kind_of
from foltr_audit.privacy.events import ClickRandomization, CorrelatedNoise, NoiseAddition, OpaqueChange
from foltr_audit.privacy.loss.losses import GaussianLoss
from foltr_audit.privacy.noise import AdditiveNoise, Gaussian
from foltr_audit.privacy.noise.gaussian import hidden_rows
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.utils.arrays import Floats, Ints

_MOST_REPORTS = 2**12


@dataclass(frozen=True)
class ObservationNoise:
    """The noise between the exact messages of two inputs and what an observer sees of them.

    The law is that of the only noise, if the observed message is the message without noise plus noise. Where
    messages are also `rounded` it gives likelihoods, but not which messages are possible. Of `bands` above 1
    the noise of consecutive messages is `C^-1 z` with so many bands of C and z of the law, see
    `foltr_audit.privacy.noise.gaussian`. `certain`: nothing random happens to a message. `reports`: only
    clicks are randomised, with this largest log ratio of a reported bit.
    """

    law: AdditiveNoise | None = None
    rounded: bool = False
    certain: bool = False
    reports: float | None = None
    bands: int = 1

    @classmethod
    def of(
        cls,
        acts: Sequence[tuple[Defense, PrivacyEvent]],
        members: int,
        interactions: int,
        *,
        released: bool = False,
    ) -> ObservationNoise:
        """The noise of a chain's links, for a sum of `members` messages of B interactions each.

        Noise on the sum counts where the sum is seen as it is `released`. Where a link adds noise and does
        something else too, its message without noise is not known; nor is the noise of a step stage known
        after several steps.
        """
        on_sum = [event for _, event in acts if isinstance(event, CorrelatedNoise)] if released else []
        acts = [act for act in acts if not isinstance(act[1], CorrelatedNoise)]
        events = [event for _, event in acts]
        kinds = [kind_of(event) for event in events]
        noisy = [link for link, event in acts if isinstance(event, NoiseAddition)]
        randomised = len(noisy) + kinds.count("randomisation") + len(on_sum)
        clicks = [event.epsilon for event in events if isinstance(event, ClickRandomization)]
        rounded = "rounding" in kinds
        if "opaque" in kinds or randomised > 1:
            return cls()
        if on_sum:
            return cls(law=Gaussian(sigma=on_sum[0].sigma), rounded=rounded, bands=on_sum[0].bands)
        if "randomisation" in kinds:
            return cls(reports=clicks[0]) if clicks and not rounded else cls()
        if not noisy:
            return cls() if rounded else cls(certain=True)
        own = [event for link, event in acts if link is noisy[0]]
        alone = all(kind_of(event) in (*NOISE, "rounding", "sum") for event in own)
        once = interactions == 1 or "step" not in noisy[0].stages
        laws = [event.law for event in events if isinstance(event, NoiseAddition)]
        last = [kind for kind in kinds if kind not in ("rounding", "sum")][-1]
        if len(laws) > 1 or last not in NOISE or not (alone and once):
            return cls()
        law = laws[0]
        # Rounding of single messages shows in a sum of shares that are mostly too small to change a digit.
        rounded |= members > 1 and law.has_pole
        return cls(law=law if members == 1 else law.summed(members), rounded=rounded)


def lists_are_certain(acts: Sequence[tuple[Defense, PrivacyEvent]], context: RoundContext) -> bool:
    """Whether lists in score order follow from the clicks with nothing random before them."""
    return not any(
        isinstance(event, OpaqueChange) or is_random(link, context)
        for link, event in acts
        if {"click", "step"} & set(link.stages)
    )


def exact_epsilon(
    noise: ObservationNoise,
    games: GameSimulator,
    canary: Canary,
    delta: float,
    *,
    lists: bool = False,
    certain: bool = False,
) -> float | None:
    """The privacy loss of these two inputs over all messages; None where it is not computable.

    For delta 0 it is the largest log ratio of their densities; for Gaussian noise also with a delta.

    With `lists` the observer sees the shown lists as well; they are `certain` where they follow from clicks
    with nothing random before them.
    """
    if games.sampled:
        return None  # it would be the worst over all lists that may be drawn
    quiet = [games.quiet(canary, message) for message in range(games.messages)]
    other_lists = any(both is not None and np.any(both[0, 1:] != both[1, 1:]) for _, both in quiet)
    if lists and certain and other_lists:
        return math.inf
    shifts = [np.subtract(*means) for means, _ in quiet]
    if noise.certain:
        return math.inf if any(np.any(shift != 0) for shift in shifts) else 0.0
    if noise.reports is not None:
        loss = _loss_of_reports(noise.reports, games, canary, lists=lists) if delta == 0 else None
        return None if loss is None else games.messages * loss
    if noise.law is None or noise.rounded or (lists and not certain):
        return None
    if noise.law.like_normal and noise.law.grid == 0 and delta > 0:
        hidden = hidden_rows(np.stack(shifts), noise.bands)
        mu = math.sqrt(float(np.square(hidden).sum())) / math.sqrt(noise.law.variance)
        return GaussianLoss(mu).epsilon(rounds=1, delta=delta, share=1.0)
    if delta > 0:
        return None
    return float(sum(noise.law.worst_loss(shift).sum() for shift in shifts))


def _loss_of_reports(epsilon: float, games: GameSimulator, canary: Canary, *, lists: bool) -> float | None:
    """The log ratio of the worst message of one interaction, over all click patterns that could be reported.

    Patterns with the same message, and the same lists where these are observed, cannot be distinguished, and
    their probabilities add up. None where several interactions differ.
    """
    if not isinstance(canary, LogCanary):
        return math.inf
    clients, queries, clicks = games.clients[0], canary.queries, canary.clicks
    width = int((clients.lists(queries[:1, 0]) >= 0).sum())
    if np.any(queries[0] != queries[1]):
        return math.inf
    differ = [b for b in range(queries.shape[1]) if np.any(clicks[0, b] != clicks[1, b])]
    if len(differ) != 1 or 2**width > _MOST_REPORTS:
        return None
    reports = patterns_as_clicks(np.arange(1 << width), clicks.shape[2])
    rows = np.arange(reports.shape[0])
    every = np.repeat(clicks[:1], rows.size, axis=0)
    every[:, differ[0]] = reports
    context = clients.context(0, rows, interactions=queries.shape[1])
    asked = np.repeat(queries[:1], rows.size, axis=0)
    local = clients.play(asked, every, context, clients.quiet)
    seen = clients.quiet_message(local.models, 0)
    if lists and local.shown is not None:
        seen = np.concatenate([seen, local.shown[:, 1:].reshape(rows.size, -1)], axis=1)
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    wrong = [(reports != clicks[h, differ[0]])[:, :width].sum(axis=1) for h in (0, 1)]
    chances = [keep ** (width - flips) * (1.0 - keep) ** flips for flips in wrong]
    # `ravel` below, since NumPy 2.0 gives these numbers another shape than other versions do.
    _, same = np.unique(seen, axis=0, return_inverse=True)
    sums = [np.bincount(same.ravel(), weights=chance) for chance in chances]
    return float(np.abs(np.log(sums[1]) - np.log(sums[0])).max())


def log_ratio(law: AdditiveNoise, seen: Floats, means: Floats) -> Floats:
    """`ln p(seen | input 1) - ln p(seen | input 0)` of each row of (N, P); means (2, P) or (2, N, P)."""
    return np.asarray((law.log_density(seen - means[1]) - law.log_density(seen - means[0])).sum(axis=1))


SCORES = ("likelihood", "projection", "discriminant", "equality", "lists", "last-bits")
"""Built-in scores, in the order in which the first of about the best is taken."""

LINEAR = ("likelihood", "projection", "discriminant")
"""Scores that are linear in the message where its noise is normal, as `gaussian-dp` assumes."""

_DIGITS = 9  # of a log ratio: last bits differ since shifted noise is rounded, which is no privacy loss


def trial_scores(
    messages: Iterable[tuple[Observation, Observation]],
    law: AdditiveNoise | None,
    learning: int,
    wanted: tuple[str, ...],
    dtype: str,
) -> dict[str, Pair]:
    """Scores by name, each added up over the messages of a trial, which are observed under both hypotheses.

    A discriminant is fitted to the first `learning` trials. Of the `wanted` names of `SCORES`, `likelihood`
    is left out where no law of the noise is known, `lists` where no lists are seen, `last-bits` except for
    Gaussian noise in float64. The likelihood of sampled lists is part of both `likelihood` and `lists`.
    `dtype` is the number format of a single message; empty for sums, which no exact message equals bit for
    bit.
    """
    makers: dict[str, Callable[[Observation], Floats | None]] = {
        "projection": _projection,
        "equality": lambda seen: _equality(seen, dtype) if dtype else None,
        "lists": lambda seen: seen.list_evidence,
        "likelihood": lambda seen: None if law is None else _likelihood(seen, law),
        "last-bits": lambda seen: _last_bits(seen, law) if dtype == "float64" else None,
    }
    scores: dict[str, Pair] = {}
    moved: list[Floats] = []
    for both in messages:
        for name in makers.keys() & set(wanted):
            more = [score for score in map(makers[name], both) if score is not None]
            if len(more) == 2:
                scores[name] = scores.get(name, 0.0) + np.stack(more)
        moved.append(np.stack([seen.seen - seen.means[0] for seen in both]))
    if "discriminant" in wanted:
        scores["discriminant"] = discriminant(sum(moved[1:], start=moved[0]), learning)
    return {name: scores[name] for name in wanted if name in scores}


def _likelihood(seen: Observation, law: AdditiveNoise) -> Floats:
    """The log likelihood ratio of the message and of sampled lists."""
    ratio = log_ratio(law, seen.seen, seen.means)
    if seen.list_evidence is not None and seen.means.ndim == 3:
        ratio = ratio + seen.list_evidence
    return np.asarray(ratio.round(_DIGITS))


def _projection(seen: Observation) -> Floats:
    """Least squares onto the shift: 0 at the mean of input 0, 1 at that of input 1."""
    shift = seen.means[1] - seen.means[0]
    size = (shift * shift).sum(axis=-1)
    along = ((seen.seen - seen.means[0]) * shift).sum(axis=1)
    there = np.broadcast_to(size > 0, along.shape)
    return np.asarray(np.divide(along, size, out=np.zeros(along.shape), where=there))


def _equality(seen: Observation, dtype: str) -> Floats:
    """How many more coordinates equal those of input 1 bit for bit than those of input 0."""
    zero, one = seen.means.astype(dtype).astype(np.float64)
    return np.asarray((seen.seen == one).sum(axis=1) - (seen.seen == zero).sum(axis=1), dtype=np.float64)


def _last_bits(seen: Observation, law: AdditiveNoise | None) -> Floats | None:
    """How much nearer to noise that can be drawn the message less the mean is for input 1 than for input 0.

    Source: Mironov 2012, "On significance of the least significant bits for differential privacy", section 4.
    """
    if law is None:
        return None
    zero, one = (law.steps_off(seen.seen - mean) for mean in seen.means)
    return None if zero is None or one is None else np.asarray(zero.sum(axis=1) - one.sum(axis=1))


def attack_scores(
    games: GameSimulator, canary: Canary, text: str, trials: Ints, *, members: int, released: bool
) -> dict[str, Pair]:
    """Scores of an attack on single messages of some trials (N,), added up over the messages of a trial.

    The messages of both hypotheses are in one view, in random order: an attack that learns from all messages
    of a view learns nothing about the hypothesis of a trial.
    """
    if not isinstance(canary, LogCanary) or np.any(canary.queries[0] != canary.queries[1]):
        raise UsageError(f"--score {text}: an attack reads clicks; expected click logs of one query")
    if members > 1:
        raise UsageError(f"--score {text}: an attack reads single messages; expected --view individual")
    if games.interactions != 1:
        raise UsageError(
            f"--score {text}: an attack reads messages of one interaction, not of {games.interactions}; "
            "expected --canary-interactions 1"
        )
    attack = make(Attack, text)
    purpose = f"{attack.text}/{canary.name}/{canary.unit}" + (f"/{trials[0]}" if trials[0] else "")
    rng = games.clients[0].setup.streams.generator(f"audit/attack/{purpose}")
    total = np.zeros(2 * trials.size)
    mixed = rng.permutation(total.size)
    weights = canary.clicks[1].astype(np.float64) - canary.clicks[0]
    for clients, (zero, one) in zip(
        games.clients, games.play(canary, trials, members=1, released=released), strict=True
    ):
        setup, messages = clients.setup, np.concatenate([zero.seen, one.seen])[mixed]
        header = trace_header(setup, setup.spec.train.click_model, len(messages), games.interactions)
        pieces = []
        for seen in Observer(header, setup.collection).views(_record(games, clients, canary, messages)):
            why = attack.why_not(seen.view)
            if why is not None:
                raise UsageError(f"--score {attack.text}: cannot run on these messages: {why}")
            scores = np.where(seen.view.is_document, checked_answer(attack, seen.view, rng).scores, 0.0)
            pieces.append((scores * weights).sum(axis=(1, 2)))
        total[mixed] += np.concatenate(pieces)
    return {text: total.reshape(2, -1)}


def _record(games: GameSimulator, clients: GameClients, canary: LogCanary, messages: Floats) -> RoundRecord:
    """The messages as one recorded round in which every client was shown the same list."""
    n, origin = len(messages), games.origin
    queries = np.repeat(canary.queries[0], n)
    return RoundRecord(
        round=0,
        parameters=clients.parameters,
        aggregate=clients.parameters,
        shares=clients.setup.spec.population.cohort_size,
        survivors=np.ones(n, dtype=np.bool_),
        counts=np.ones(n, dtype=np.int64),
        messages=messages.astype(clients.setup.spec.trace.dtype),
        slot=np.arange(n),
        step=np.zeros(n, dtype=np.int64),
        part=origin.part[queries],
        query=origin.query[queries],
        shown=np.repeat(clients.lists(canary.queries[0]), n, axis=0),
    )
