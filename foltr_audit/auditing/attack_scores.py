"""Scores of trials by an attack: its scores of clicks of input 1, less those of clicks of input 0."""

from __future__ import annotations

import numpy as np

from foltr_audit.auditing.games import GameSimulator
from foltr_audit.auditing.neighbours import Canary, LogCanary
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.auditing.trial_scores import Pair
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import UsageError
from foltr_audit.judge.attack_session import checked_answer
from foltr_audit.judge.observer import Observer
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.utils.arrays import Floats, Ints


def attack_scores(
    games: GameSimulator, canary: Canary, text: str, trials: Ints, *, members: int, released: bool
) -> dict[str, Pair]:
    """Scores of an attack on single messages of some trials (N,), added up over the messages of a trial.

    The messages of both hypotheses are in one view, in random order: an attack that learns from all messages
    of a view learns nothing about the hypothesis of a trial.

    Raises:
        UsageError: the canary has no click logs of one query, the view is a sum, or the attack cannot run.
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
    place = f"{attack.text}/{canary.name}/{canary.unit}" + (f"/{trials[0]}" if trials[0] else "")
    rng = games.clients[0].setup.streams.generator(f"audit/attack/{place}")
    total = np.zeros(2 * trials.size)
    mixed = rng.permutation(total.size)
    for clients, (zero, one) in zip(
        games.clients, games.play(canary, trials, members=1, released=released), strict=True
    ):
        messages = np.concatenate([zero.seen, one.seen])[mixed]
        total[mixed] += _scored(games, clients, canary, attack, messages, rng)
    return {text: (total[: trials.size], total[trials.size :])}


def _scored(
    games: GameSimulator,
    clients: GameClients,
    canary: LogCanary,
    attack: Attack,
    messages: Floats,
    rng: np.random.Generator,
) -> Floats:
    click_model = clients.setup.spec.train.click_model
    header = trace_header(clients.setup, click_model, len(messages), games.interactions)
    observer = Observer(header, clients.setup.collection)
    record, pieces = _record(games, clients, canary, messages), []
    weights = canary.clicks[1].astype(np.float64) - canary.clicks[0]
    for seen in observer.views(record):
        why = attack.why_not(seen.view)
        if why is not None:
            raise UsageError(f"--score {attack.text}: cannot run on these messages: {why}")
        scores = np.where(seen.view.is_document, checked_answer(attack, seen.view, rng).scores, 0.0)
        pieces.append((scores * weights).sum(axis=(1, 2)))
    return np.concatenate(pieces)


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
