"""Federations that train a neural ranker: the engine, their traces, and what they learn."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from foltr_audit.core.click_models import PerfectClickModel
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import table_in
from foltr_audit.experiments.stages import first_model, train
from foltr_audit.simulation.client import ClientRules
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace
from tests.conftest import SetupOf
from tests.fixtures.command import files, run
from tests.fixtures.reference import numba_threads
from tests.fixtures.tiny import FEATURES

TRAIN = "train --data synthetic:mq2007:60 --ranker neural:hidden=4"


def with_ranker(setup: Setup, text: str) -> Setup:
    """The same experiment with another ranker."""
    table = setup.spec.table()
    table_in(table, "train")["ranker"] = text
    return Setup(Spec.parse(table), setup.collection)


def test_rankers_go_through_the_fused_kernel(setup_of: SetupOf) -> None:
    def rules(text: str) -> ClientRules:
        return with_ranker(setup_of(), text).rules(PerfectClickModel(), sampled=True)

    shapes = {"linear": (None, None), "neural": (64, 1), "neural:hidden=4": (4, 1)}
    for text, shape in {**shapes, "neural:hidden=4,layers=2": (4, 2)}.items():
        declared = rules(text).kernel_rules()
        assert declared is not None
        assert (declared.hidden, declared.layers) == shape


def test_the_first_model_belongs_to_the_seed(setup_of: SetupOf) -> None:
    one, same, other = (with_ranker(setup_of(seed=seed), "neural:hidden=4") for seed in (1, 1, 2))
    assert first_model(one).tobytes() == first_model(same).tobytes()
    assert not np.array_equal(first_model(one), first_model(other))
    assert not first_model(setup_of()).any()


def test_claims_and_noise_laws_need_no_model(setup_of: SetupOf) -> None:
    chain = ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3")
    linear = setup_of(defense=chain)
    neural = with_ranker(linear, "neural:hidden=4")
    assert neural.privacy.claim() == linear.privacy.claim()
    assert neural.privacy.noise() == linear.privacy.noise()


@pytest.mark.parametrize("message", ["model", "update"])
def test_a_neural_federation(message: str, setup_of: SetupOf) -> None:
    plain = setup_of(rounds=3, message=message, defense=("clip:norm=2",))
    setup = with_ranker(plain, "neural:hidden=4")
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


def test_a_neural_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    world = f"{TRAIN} --clients 1000 --eps 1.2"
    asked = f"{world} --rounds 8"
    assert run(f"{asked} --out", tmp_path / "whole").code == 0
    expected = files(tmp_path / "whole")
    ends = sorted(name for name in expected if name.startswith("trace/part-"))
    assert len(ends) > 1
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    for lost in (ends[-1], "model.npy", "results.json"):
        (tmp_path / "killed" / lost).unlink()
    assert run(f"{asked} --resume --out", tmp_path / "killed").code == 0
    assert files(tmp_path / "killed") == expected
    header = Trace.open(tmp_path / "whole" / "trace").header
    assert (header.ranker, header.parameters) == ("neural:hidden=4", 4 * 48)
    assert run(f"{world} --rounds 1 --init", tmp_path / "whole").code == 0


def test_a_model_of_another_ranker_is_no_first_model(tmp_path: Path) -> None:
    np.save(tmp_path / "linear.npy", np.zeros(46), allow_pickle=False)
    line = run(f"{TRAIN} --init", tmp_path / "linear.npy").one_error()
    assert line.endswith("an array of float64 and shape (46,); expected 192 real numbers, one per parameter")


@pytest.mark.parametrize("text", ["neural:hidden=4", "neural:hidden=4,layers=2"])
def test_threads_change_no_byte_of_a_neural_round(text: str, setup_of: SetupOf) -> None:
    setup = with_ranker(setup_of(clients=70, defense=("clip:norm=2",)), text)

    def round_bytes(threads: int) -> list[bytes]:
        with numba_threads(threads):
            played = Federation(setup).play(first_model(setup), 0)
            done = played.sent.interactions
            arrays = (played.sent.messages, played.sent.updates, done.shown, done.clicks, played.aggregate)
            return [np.ascontiguousarray(array).tobytes() for array in arrays]

    assert round_bytes(2) == round_bytes(1)
