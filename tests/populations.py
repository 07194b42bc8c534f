"""Recordings of clients who differ, made by hand: every draw is in here, and none is the simulator's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import Cascade
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.inference.replay import Replay
from foltr_audit.judge.observer import Observer
from foltr_audit.privacy.noise import parse_law
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRecording, trace_header
from foltr_audit.simulation.setup import Setup
from tests.test_replay import learner, wide

SetupOf = Callable[..., Setup]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SHARES = ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3")
K = 5


def of_intents(intents: int = 2, queries: int = 60, features: int = 16) -> Collection:
    """Queries whose documents have grades 0 to 2 under each intent, drawn independently."""
    rng = np.random.default_rng(11)

    def judged(data: Dataset) -> Dataset:
        return data.with_intents(rng.choice(3, size=(intents, data.n_documents), p=[0.5, 0.2, 0.3]))

    made = wide(queries, features)
    return replace(made, train=judged(made.train), vali=judged(made.vali), test=judged(made.test))


DATA = of_intents()


def walked(grades: Ints, click_model: str, rng: np.random.Generator) -> Bools:
    """Clicks of one user who reads a list (k,) from the top; grade -1 is the padding."""
    model = make(ClickModel, click_model)
    assert isinstance(model, Cascade)
    click, stop = model.setting(2)
    clicks = np.zeros(grades.size, np.bool_)
    for place, grade in enumerate(grades.tolist()):
        clicks[place] = grade >= 0 and rng.random() < click[grade]
        if clicks[place] and rng.random() < stop[grade]:
            break
    return clicks


def recorded(
    setup_of: SetupOf,
    *,
    rounds: int,
    intents: Sequence[int],
    click_models: Sequence[str] = ("informational",),
    sizes: Sequence[int] = (1,),
    noise_clients: int = 1000,
    seed: int = 0,
    data: Collection = DATA,
    **more: Any,
) -> MemoryRecording:
    """Rounds of M clients, one for each of `intents`; click models and numbers of lists are dealt in turn.

    Every list answers a query drawn anew and shows up to five of its documents in an order drawn anew. The
    global model is another one each round.
    """
    rng, M = np.random.default_rng(seed), len(intents)
    text = learner("all", "shown", interactions=1)
    setup = setup_of(learner=text, defense=SHARES, clients=noise_clients, data=data, **more)
    header = trace_header(setup, "informational", M, 1)
    law = parse_law(str(setup.noise()))
    assert law is not None
    memory = MemoryRecording(replace(header, k=K))
    counts = np.array([sizes[client % len(sizes)] for client in range(M)])
    for number in range(rounds):
        record, clicks = _asked(memory, data, counts, number, intents, click_models, rng)
        (seen,) = Observer(memory.header, data).views(record)
        placed = np.zeros(seen.view.shown.shape, np.bool_)
        placed[record.slot, record.step] = clicks
        models = Replay(seen.view).paths(np.arange(M), placed)[-1]
        noise = law.sample(Streams(seed).clients("noise", number, np.arange(M)), record.parameters.size)
        messages = (models + noise).astype(record.messages.dtype)
        truth = RoundTruth(
            clients=np.arange(M),
            updates=models - record.parameters,
            clicks=clicks,
            clipped=np.zeros(record.slot.size, np.bool_),
            intents=np.asarray(intents)[record.slot],
        )
        memory.write(replace(record, messages=messages), truth)
    return memory


def _asked(
    memory: MemoryRecording,
    data: Collection,
    counts: Ints,
    number: int,
    intents: Sequence[int],
    click_models: Sequence[str],
    rng: np.random.Generator,
) -> tuple[RoundRecord, Bools]:
    """What is asked and shown in a round, with messages of zeros, and the clicks (I, k)."""
    slot = np.repeat(np.arange(counts.size), counts)
    step = np.arange(slot.size) - np.repeat(np.cumsum(counts) - counts, counts)
    query = rng.choice(np.flatnonzero(data.train.lengths >= 3), size=slot.size)
    shown, clicks = np.full((slot.size, K), -1), np.zeros((slot.size, K), np.bool_)
    for row, (client, asked) in enumerate(zip(slot.tolist(), query.tolist(), strict=True)):
        length = int(data.train.lengths[asked])
        width = min(length, K)
        shown[row, :width] = rng.permutation(length)[:width]
        grades = data.train.under(intents[client]).shown_labels(query[[row]], shown[[row]])[0]
        clicks[row] = walked(grades, click_models[client % len(click_models)], rng)
    parameters = rng.normal(size=data.n_features) / 6
    record = RoundRecord(
        round=number,
        parameters=parameters,
        aggregate=parameters,
        shares=counts.size,
        survivors=np.ones(counts.size, np.bool_),
        counts=counts,
        messages=np.zeros((counts.size, parameters.size)),
        slot=slot,
        step=step,
        part=np.zeros(slot.size, np.int64),
        query=query,
        shown=shown,
    )
    return record, clicks


def reordered(recording: MemoryRecording, seed: int = 5) -> MemoryRecording:
    """The same recording with the messages of each round in another order."""
    rng, found = np.random.default_rng(seed), replace(recording, records=[], truth=[], rows=[])
    for record, truth in zip(recording.records, recording.truth, strict=True):
        order = rng.permutation(record.n_messages)
        place = np.argsort(order)[record.slot]
        rows = np.lexsort((record.step, place))
        assert truth.intents is not None
        of_rows = {name: getattr(record, name)[rows] for name in ("step", "part", "query", "shown")}
        turned = replace(
            record, slot=place[rows], messages=record.messages[order], counts=record.counts[order], **of_rows
        )
        also = replace(
            truth,
            clients=truth.clients[order],
            updates=truth.updates[order],
            clicks=truth.clicks[rows],
            clipped=truth.clipped[rows],
            intents=truth.intents[rows],
        )
        found.write(turned, also)
    return found
