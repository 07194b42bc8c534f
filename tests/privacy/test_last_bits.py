"""What the last bits of messages and of sums tell of noise, and that nothing is proven for them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foltr_audit.auditing.audit import Audit
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.privacy.events import GridRounding, MessageAggregation, NoiseAddition, PrivacyEvent
from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Gaussian
from foltr_audit.rng import UNIFORM_STEP, Streams
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES
from tests.privacy.test_accounting import L2, WHOLE, bound, epsilon

NORMAL = NoiseAddition(law=Gaussian(sigma=3.0))
GRID = NoiseAddition(law=DiscreteGaussian(sigma=3.0, step=2.0**-10))
ROUNDED = GridRounding(step=2.0**-10, nearest=True)
CHAIN = ("clip:norm=1.5", "gaussian:eps=1,delta=0.00001,sensitivity=3")


def test_uniform_numbers_are_middles_of_steps() -> None:
    drawn = Streams(5).clients("any", 0, np.arange(50)).uniform(40) / UNIFORM_STEP
    np.testing.assert_array_equal(drawn % 1.0, 0.5)


def test_drawn_noise_is_near_its_steps_and_other_numbers_are_not() -> None:
    law = Gaussian(sigma=2.5)
    drawn = law.sample(Streams(5).clients("any", 0, np.arange(100)), 40)
    low = drawn[drawn < 0]
    assert law.steps_off(low).mean() < 0.15
    assert law.steps_off(low + 0.1).mean() == pytest.approx(0.25, abs=0.02), "as far off as any number"
    np.testing.assert_array_equal(law.steps_off([2.5, 9.0]), 0.25)


@pytest.mark.parametrize(
    ("events", "hidden"),
    [((L2, NORMAL), False), ((L2, WHOLE), False), ((L2, ROUNDED, GRID), True), ((L2, NORMAL, ROUNDED), True)],
)
def test_nothing_is_proven_of_single_float64_messages(events: tuple[PrivacyEvent, ...], hidden: bool) -> None:
    """As continuous noise was before, whose proof is one about real numbers."""
    seen = {"view": "individual", "delta": 1e-5, "number_format": "float64"}
    assert math.isfinite(epsilon(*events, **{**seen, "number_format": "float32"}))
    assert math.isfinite(epsilon(*events, **seen)) == hidden
    assert math.isfinite(epsilon(*events, **{**seen, "view": "colluding"})) == hidden
    assert math.isfinite(epsilon(*events, **{**seen, "view": "colluding", "colluders": 10}))
    assert math.isfinite(epsilon(*events, **{**seen, "view": "aggregate"}))
    if not hidden:
        assert "last bits of float64" in bound(*events, **seen).how


def test_secure_sums_are_on_a_grid() -> None:
    shares = NoiseAddition(law=GammaShare(n=1, scale=2.5))
    events = (L2, shares, MessageAggregation(at_least=500))
    told = epsilon(*events, view="individual", number_format="float64")
    assert told == epsilon(*events, view="individual", number_format="float32")


@pytest.mark.parametrize(("dtype", "refuted"), [("float64", True), ("float32", False)])
def test_an_audit_reads_the_last_bits(dtype: str, refuted: bool, setup_of: SetupOf) -> None:
    """All trials but a few tell which of two models was sent, behind noise that is proven for epsilon 1."""
    setup = setup_of(defense=CHAIN, dtype=dtype)
    protocol = AuditSpec(
        units=("client",), canaries=("message",), views=("individual",), models=("first",), trials=1000
    )
    (found,) = Audit(setup, protocol).findings({"first": [np.linspace(-0.3, 0.3, FEATURES)]})
    assert (found.verdict == "refuted") == refuted
    assert (found.score == "last-bits") == refuted
    assert any("last bits" in warning.text for warning in setup.privacy.warnings()) == refuted
    assert math.isinf(found.upper.epsilon) == refuted
