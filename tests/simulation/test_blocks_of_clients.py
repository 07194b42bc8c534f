"""Clients that play in blocks send what they send all at once."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.core.plugins import WireMessages
from foltr_audit.simulation import training
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.training import weighted_mean
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES

START = np.linspace(-0.4, 0.5, FEATURES)


@pytest.mark.parametrize(
    "defense",
    [
        ("none",),
        ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3"),
        ("clip:norm=1.5", "laplace:eps=1.2,sensitivity=3", "trimmed-mean:share=0.2"),
        ("clip:norm=1.5", "secure-aggregation"),
    ],
)
@pytest.mark.parametrize("message", ["model", "update"])
def test_the_size_of_a_block_changes_no_byte(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch, defense: tuple[str, ...], message: str
) -> None:
    found = []
    for numbers in (1_000_000, 3 * FEATURES, 1):
        monkeypatch.setattr(training, "BLOCK_NUMBERS", numbers)
        sent = {"message": message, "dtype": "float32"}
        setup = setup_of(defense=defense, clients=7, learner="fpdgd:interactions=2", **sent)
        played = Federation(setup).play(START, 0)
        done = played.sent.interactions
        arrays = (played.sent.messages, played.sent.updates, played.aggregate, done.shown, done.clicks)
        found.append([array.tobytes() for array in arrays])
    assert found[0] == found[1] == found[2]


def test_messages_in_their_format_are_averaged_as_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = np.random.default_rng(3).normal(size=(9, 5)).astype(np.float32)
    survivors, counts = np.arange(9) != 4, np.arange(1, 10)
    monkeypatch.setattr("foltr_audit.simulation.training._CONVERTED", 18)  # two columns at once
    short, long = (
        weighted_mean(WireMessages(messages=given, survivors=survivors), counts)[0]
        for given in (messages, messages.astype(np.float64))
    )
    assert short.tobytes() == long.tobytes()
