"""Wrong pairings are said aloud, right ones pass in silence; decided from what defenses declare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.core.declared.checks import CHAIN_CHECKS, digits, findings
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense
from tests.fixtures import tiny
from tests.fixtures.declared_systems import PARAMETERS, TheirClip, TheirNoise, system_of


def said(text: str, *more: Defense, shares: int = 1000) -> list[str]:
    return warnings((*parse_chain([text]), *more), shares=shares)


def warnings(
    defenses: tuple[Defense, ...], parameters: int = PARAMETERS, shares: int = 1000, separation: int = 1
) -> list[str]:
    """What the checks of a chain find, whatever it claims."""
    system = system_of(*defenses, parameters=parameters, shares=shares, separation=separation)
    return [finding.warning.text for finding in findings(replace(system, claims=()), CHAIN_CHECKS)]


@settings(max_examples=60, derandomize=True)
@given(norm=st.floats(0.01, 100.0), sensitivity=st.floats(0.01, 100.0), order=st.sampled_from([1, 2]))
def test_what_is_said_is_how_much_is_missing(norm: float, sensitivity: float, order: int) -> None:
    """The factor is that of the worst pair of models: by brute force over corners of the ball."""
    text = f"clip:norm={norm},ord={order}+laplace:eps=1,sensitivity={sensitivity}"
    poles = [np.eye(PARAMETERS)[0], np.ones(PARAMETERS)]
    worst = max(2 * norm * np.abs(pole / np.linalg.norm(pole, order)).sum() for pole in poles) / sensitivity
    found = said(text)
    assert bool(found) == bool(worst > 1 + 1e-9)
    if found:
        assert f"for a client epsilon {digits(worst)}, not 1" in found[0]


def test_plug_ins_of_others_are_judged_by_their_events() -> None:
    (found,) = warnings((TheirClip(), TheirNoise()))
    assert found.startswith("their-noise: the noise is computed for a sensitivity of 3, but two")
    assert "up to 20.3 in L1: for a client the noise is 6.78 times too small" in found
    (found,) = warnings((TheirClip(), tiny.ToyStep(), TheirNoise()))
    assert "toy-step removes the bound of their-clip" in found
    assert warnings((TheirClip(), TheirNoise()), 1) == []
    assert warnings(()) == []
