"""Bytes of a message, by hand."""

from __future__ import annotations

import pytest

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.runner import Runner
from foltr_audit.simulation.federation import bytes_per_client

STUDY, DATA = Runner(), {"source": "synthetic:mq2007:30"}


def sent_by(spec: Spec, rounds: list[dict[str, float]]) -> float | None:
    setup = STUDY.setup(spec)
    return bytes_per_client(setup.learner, setup.chain, setup.ranker.n_parameters, spec.trace, rounds)


@pytest.mark.parametrize(
    ("defense", "dtype", "expected"),
    [
        ("none", "float32", 46 * 4),
        ("none", "float64", 46 * 8),
        ("clip:norm=1+laplace:eps=1,sensitivity=2", "float32", 46 * 4),
        ("top-k:k=5", "float32", (5 * (32 + 6) + 7) // 8),
        ("random-k:k=5", "float32", 5 * 4),
        ("quantise:range=1,levels=4", "float32", (46 * 2 + 7) // 8),
        ("quantise:range=1,levels=5", "float32", (46 * 3 + 7) // 8),
        ("sign:scale=1", "float32", 10),  # 3^46 possible messages are below 2^73,
        ("top-k:k=5+laplace:eps=1,sensitivity=2", "float32", 46 * 4),
    ],
)
def test_what_a_model_takes(defense: str, dtype: str, expected: int) -> None:
    table = {"data": DATA, "defense": defense.split("+"), "trace": {"dtype": dtype}}
    assert sent_by(Spec.parse(table), []) == expected


def test_other_messages() -> None:
    def sent(learner: str, rounds: list[dict[str, float]]) -> float | None:
        return sent_by(Spec.parse({"data": DATA, "train": {"learner": learner}}), rounds)

    assert sent("foltr-es", []) == 8 + 2 * 4
    assert sent("pdgd", []) is None
    assert sent("fpdgd", [{"bytes": 1000.0}, {"bytes": 1200.0}]) == 1100
