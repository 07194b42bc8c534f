"""Attacks on masked messages are at chance; the same attacks read the same messages without masks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.records import Collection
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.observer import Observer
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, trace_header
from foltr_audit.simulation.setup import Setup
from tests.conftest import SetupOf
from tests.fixtures.judging import judge_clicks
from tests.fixtures.there import there
from tests.fixtures.tiny import FEATURES, collection_of, dataset

ATTACKS = ("olsr", "lad", "map", "learned:documents=1000,trees=10")
NO_PRIOR = frozenset({"click_model", "relevance"})
CHANCE = 3.5  # standard errors: a right test fails once in 2,000
MODEL = np.linspace(-0.4, 0.5, FEATURES)


@pytest.fixture(scope="module")
def short_lists() -> Collection:
    """Queries of 2 to 5 documents with six features: a message without noise tells what was clicked."""
    lengths = np.random.default_rng(1).integers(2, 6, size=120).tolist()
    train, vali, test = (dataset(lengths, seed, name) for seed, name in enumerate("abc"))
    return collection_of(train, vali, test)


def training(setup: Setup, rounds: int = 3) -> MemoryRoundStore:
    memory = MemoryRoundStore(trace_header(setup, setup.spec.train.click_model, 150))
    for number in range(rounds):  # always from the same model: only the clicks differ
        memory.write(*Federation(setup).play(MODEL, number).recorded())
    return memory


def fresh(setup: Setup) -> MemoryRoundStore:
    protocol = there(setup.spec.attack)
    memory = MemoryRoundStore(trace_header(setup, "informational", 240, 1))
    for played in FreshClients(setup, protocol).rounds(MODEL, "informational"):
        memory.write(*played.recorded())
    return memory


def found(recording: MemoryRoundStore, data: Collection) -> ClickEvidence:
    attacks = [make(Attack, name) for name in ATTACKS]
    return judge_clicks(recording, Observer(recording.header, data, NO_PRIOR), attacks, Streams(1))


def replaced(recording: MemoryRoundStore) -> MemoryRoundStore:
    """The same rounds with uniform numbers in the place of the messages."""
    rng, bits = np.random.default_rng(9), recording.header.knowledge["bits"]
    assert isinstance(bits, int)
    records = [
        replace(r, messages=rng.integers(0, 2**bits, size=r.messages.shape, dtype=np.uint64))
        for r in recording.records
    ]
    return MemoryRoundStore(recording.header, records=records, truth=recording.truth, rows=recording.rows)


def concordance(evidence: ClickEvidence, label: str) -> NDArray[np.float64]:
    """For each list: how often a clicked document scores above an unclicked one, ties counting one half."""
    out = []
    rows = zip(evidence.guessed[label].scores, evidence.clicks, evidence.shown, strict=True)
    for scores, clicks, shown in rows:
        ours, others = scores[clicks & (shown >= 0)], scores[~clicks & (shown >= 0)]
        if ours.size and others.size:
            above = np.subtract.outer(ours, others)
            out.append(float(((above > 0) + 0.5 * (above == 0)).mean()))
    return np.array(out)


def z(values: NDArray[np.float64], centre: float) -> float:
    """Distance of the mean of lists from a value, in standard errors."""
    return float((values.mean() - centre) / (values.std(ddof=1) / np.sqrt(values.size)))


@pytest.mark.parametrize("message", ["model", "update"])
@pytest.mark.parametrize("target", ["training", "fresh"])
def test_masks_hide_everything(message: str, target: str, setup_of: SetupOf, short_lists: Collection) -> None:
    def seen(masks: str) -> tuple[MemoryRoundStore, ClickEvidence]:
        setup = setup_of(
            defense=(f"secure-aggregation:masks={masks}",),
            data=short_lists,
            clients=150,
            rounds=3,
            message=message,
            learner="fpdgd:interactions=1,pairs=all",
            attack={"min_documents": 2} if target == "fresh" else None,
        )
        made = training(setup) if target == "training" else fresh(setup)
        return made, found(made, short_lists)

    masked, told = seen("true")
    control = found(replaced(masked), short_lists)
    _, bare = seen("false")
    assert np.array_equal(told.clicks, bare.clicks), "masks change nothing about what users do"
    for label in told.guessed.keys() - told.baselines:
        reads, knows = concordance(told, label), concordance(control, label)
        assert reads.size > 100
        assert abs(z(reads, 0.5)) < CHANCE, label
        spread = np.hypot(reads.std() / np.sqrt(reads.size), knows.std() / np.sqrt(knows.size))
        assert abs(reads.mean() - knows.mean()) < CHANCE * spread, label
        assert concordance(bare, label).mean() > 0.85, label


def test_the_sum_still_trains(setup_of: SetupOf, short_lists: Collection) -> None:
    """Masked rounds go the way of unmasked ones: the average differs by rounding only."""
    for message in ("model", "update"):
        given = {"data": short_lists, "clients": 40, "message": message}
        plain = Federation(setup_of(**given)).play(MODEL, 0)
        masked = Federation(setup_of(defense=("secure-aggregation",), **given)).play(MODEL, 0)
        assert np.abs(plain.aggregate - masked.aggregate).max() < 2.0**-24
        assert not np.array_equal(plain.aggregate, MODEL)
