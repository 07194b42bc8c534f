"""PDGD as a client step: its definition, and traces with clipped updates, which are read by it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.plugins import ClientStep
from foltr_audit.core.plugins.registry import plugin_class
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.spec.defaults import PDGD_STEP
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.report.results.attack import AttackReport
from tests.fixtures import foreign_trace
from tests.fixtures.foreign_trace import System
from tests.fixtures.reference import exact_pair_weights, pairwise_gradient
from tests.inference.test_pattern_decoder import RATE


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=3"])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_the_registered_step_of_pdgd_is_that_of_its_definition(pairs: str, ranker: str) -> None:
    """Its updates from pairs, with the Jacobian of the ranker by differences."""
    rng, made = np.random.default_rng(6), make_ranker(ranker, 4)
    model, features = made.initial(rng) + rng.normal(size=made.n_parameters), rng.normal(size=(5, 4))
    moves = 1e-6 * np.eye(made.n_parameters)
    ahead, behind = (made.score(model + sign * moves, features[np.newaxis]) for sign in (1, -1))
    rows = ((ahead - behind) / 2e-6).T
    weights = exact_pair_weights(made.score(model, features), list(range(5)), False)
    step = plugin_class(ClientStep, PDGD_STEP).model_validate(
        {"learning_rate": RATE, "pairs": pairs, "ranker": ranker}
    )
    patterns = np.array(list(product([0.0, 1.0], repeat=5)))
    expected = [
        RATE * pairwise_gradient(weights, rows, [bool(one) for one in pattern], pairs == "last-click+1")
        for pattern in patterns
    ]
    np.testing.assert_allclose(step.updates(model, features, patterns), expected, atol=1e-7)
    assert step.why_not(made.n_parameters + 1, 4) is not None


def test_a_trace_of_pdgd_whose_updates_are_clipped_is_read(tmp_path: Path) -> None:
    """As under Flower's `fixedclipping_mod`: the fact alone is enough, and without it nothing fits."""
    system = System(clients=15, rounds=1, shares=None, seed=4)
    ((record, truth),) = foreign_trace.records(system)
    norms = np.linalg.norm(record.messages, axis=1, keepdims=True)
    norm = 0.5 * float(np.median(norms))
    messages = record.messages * np.minimum(1.0, norm / np.maximum(norms, 1e-300))
    clipped = replace(record, messages=messages, aggregate=record.parameters + messages.mean(axis=0))
    folders = {}
    for name, facts in {"told": {"update_clip_norm": norm}, "not told": {}}.items():
        head = foreign_trace.header(system, facts=facts)
        folders[name] = foreign_trace.write(tmp_path / name.replace(" ", "-"), head, [(clipped, truth)])
    exact = {name: exactly_read(fa.attack_trace(folder, "map")) for name, folder in folders.items()}
    assert exact["told"] == 1.0
    assert exact["not told"] < 0.8
    assert TraceAttack.open(folders["told"]).facts["recorded"].explained == 1.0
    hidden = TraceAttack.open(folders["told"], changes={"methods": ("map",), "hide": ("learning_rate",)})
    with pytest.raises(fa.FoltrAuditError, match="does not know: learning_rate"):
        list(hidden.judged())


def exactly_read(report: AttackReport) -> float:
    """The share of lists that `map` read without an error."""
    (found,) = [row.found.exact.value for row in report.results if row.method == "map"]
    return float(found)
