"""What the last bits of messages and of sums tell of noise, and that nothing is proven for them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foltr_audit.auditing.audit import Audit
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.kernels.messages import weighted_sum
from foltr_audit.privacy.events import GridRounding, MessageAggregation, NoiseAddition, PrivacyEvent
from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, GammaShare, Gaussian, Skellam
from foltr_audit.rng import UNIFORM_STEP, Streams
from tests.conftest import SetupOf
from tests.fixtures.tiny import FEATURES
from tests.privacy.test_accounting import L1, L2, WHOLE, bound, epsilon

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


MEMBERS, COORDINATES = 100, 46
LOW = 2.0**-29
"""What numbers between 2^-6 and 2^-5, as other clients send, are multiples of in float32."""


def told_apart(law: AdditiveNoise, rounds: int = 60) -> float:
    """The AUC of a guess which of two messages, 5e-9 apart in L1, is in a sum of float32 messages."""
    rng = np.random.default_rng(5)
    two = 1e-6 + np.array([[0.0], [5e-9 / COORDINATES]]) + np.zeros(COORDINATES)
    low = [each.astype(np.float32).astype(np.float64) % LOW for each in two]
    scores = np.empty((2, rounds))
    for number in range(2 * rounds):
        which = number % 2
        messages = rng.uniform(0.018, 0.03, size=(MEMBERS, COORDINATES))
        messages[0] = two[which]
        if law.grid > 0:
            messages = law.grid * np.rint(messages / law.grid)
        messages += law.sample(Streams(5).clients("noise", number, np.arange(MEMBERS)), COORDINATES)
        sent = messages.astype(np.float32).astype(np.float64)
        rest = weighted_sum(sent, np.ones(MEMBERS)) % LOW
        off = [np.minimum(np.abs(rest - bits), LOW - np.abs(rest - bits)) for bits in low]
        scores[which, number // 2] = (off[1] < 1e-12).sum() - (off[0] < 1e-12).sum()
    after = scores[1][:, np.newaxis] - scores[0]
    return float(((after > 0) + 0.5 * (after == 0)).mean())


@pytest.mark.parametrize(
    ("law", "told"),
    [
        (GammaShare(n=MEMBERS, scale=2.5), True),
        (GammaShare(n=1, scale=2.5), False),
        (Gaussian(sigma=0.3), False),
        (Skellam(sigma=0.3, step=2.0**-13), False),
    ],
    ids=lambda value: getattr(value, "text", str(value)),
)
def test_low_bits_of_a_sum_of_float32_messages(law: AdditiveNoise, told: bool) -> None:
    """A proof for real numbers would be an epsilon of 2e-9 here: shares with a pole at 0 have none."""
    auc = told_apart(law)
    assert auc > 0.99 if told else abs(auc - 0.5) < 4 * math.sqrt(1 / (6 * 60))
    rounding = (GridRounding(step=law.grid, nearest=True),) if law.grid > 0 else ()
    events = (L1, *rounding, NoiseAddition(law=law))
    seen = {"view": "aggregate", "shares": MEMBERS, "delta": 1e-5}
    assert math.isfinite(epsilon(*events, **seen))
    assert math.isinf(epsilon(*events, **seen, number_format="float32")) == told
