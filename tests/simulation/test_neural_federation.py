"""Federations that train a neural ranker: the engine, their traces, and what they learn."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.experiments.stages import first_model, train
from tests.conftest import SetupOf
from tests.fixtures.command import run
from tests.fixtures.tiny import FEATURES

TRAIN = "train --data synthetic:mq2007:60 --ranker neural:hidden=4"
NEURAL = {"ranker": "neural:hidden=4"}


def test_the_first_model_belongs_to_the_seed(setup_of: SetupOf) -> None:
    one, same, other = (setup_of(seed=seed, train=NEURAL) for seed in (1, 1, 2))
    assert first_model(one).tobytes() == first_model(same).tobytes()
    assert not np.array_equal(first_model(one), first_model(other))
    assert not first_model(setup_of()).any()


@pytest.mark.parametrize("message", ["model", "update"])
def test_a_neural_federation(message: str, setup_of: SetupOf) -> None:
    setup = setup_of(rounds=3, message=message, defense=("clip:norm=2",), train=NEURAL)
    trained = train(setup, keep=True)
    recording = trained.recording
    assert recording is not None
    assert recording.header.ranker == "neural:hidden=4"
    assert recording.header.parameters == trained.parameters.size == 4 * FEATURES + 8
    records = list(recording.rounds())
    assert records[0].parameters.tobytes() == first_model(setup).tobytes()
    for before, after in pairwise(records):
        assert after.parameters.tobytes() == before.aggregate.tobytes()
    for record in records:
        assert record.messages.shape == (8, 4 * FEATURES + 8)
        models = record.messages + (record.parameters if message == "update" else 0.0)
        np.testing.assert_allclose(models.mean(axis=0), record.aggregate, rtol=0, atol=1e-12)
        assert np.linalg.norm(models, axis=1).max() <= 2 + 1e-12


def test_the_model_of_a_neural_run_is_a_first_model_and_that_of_another_ranker_is_not(tmp_path: Path) -> None:
    assert run(f"{TRAIN} --clients 20 --rounds 2 --out", tmp_path / "run").code == 0
    assert run(f"{TRAIN} --clients 20 --rounds 1 --init", tmp_path / "run").code == 0
    np.save(tmp_path / "linear.npy", np.zeros(46), allow_pickle=False)
    line = run(f"{TRAIN} --init", tmp_path / "linear.npy").one_error()
    assert line.endswith("an array of float64 and shape (46,); expected 192 real numbers, one per parameter")
