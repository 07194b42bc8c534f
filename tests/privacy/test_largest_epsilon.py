"""What an epsilon promises and the largest one that promises no more: against each other, and riskcal."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.errors import UsageError
from foltr_audit.privacy.tradeoff import TradeOff, epsilon_of_accuracy, epsilon_of_auc

RATES = np.array([0.0, 1e-3, 0.01, 0.1, 0.137, 0.5, 0.9, 1.0])


@given(st.floats(0.0, 15.0), st.floats(0.0, 0.3))
def test_the_largest_epsilon_inverts_the_curve(eps: float, delta: float) -> None:
    curve = TradeOff.of_epsilon(eps, delta)
    assert epsilon_of_auc(max(curve.auc, 0.5), delta) == pytest.approx(eps, abs=1e-6)
    assert epsilon_of_accuracy(max(float(curve.accuracy()), 0.5), delta) == pytest.approx(eps, abs=1e-6)


@given(st.floats(0.5, 0.999), st.floats(0.0, 0.2))
def test_no_larger_epsilon_keeps_to_the_limit(limit: float, delta: float) -> None:
    for invert, reached in (
        (epsilon_of_auc, lambda curve: curve.auc),
        (epsilon_of_accuracy, lambda curve: float(curve.accuracy())),
    ):
        if reached(TradeOff.of_epsilon(0.0, delta)) > limit:
            if reached(TradeOff.of_epsilon(0.0, delta)) > limit + 1e-9:
                with pytest.raises(UsageError, match="which delta"):
                    invert(limit, delta)
            continue
        eps = invert(limit, delta)
        assert reached(TradeOff.of_epsilon(eps, delta)) <= limit + 1e-9
        assert reached(TradeOff.of_epsilon(eps + 1e-3, delta)) > limit


def test_the_least_limit_that_is_named_is_one() -> None:
    """Delta .1 alone reaches an AUC of 1 - .9^2 / 2 and an accuracy of .55."""
    with pytest.raises(UsageError, match=r"--auc: 0\.52; expected at least 0\.595"):
        epsilon_of_auc(0.52, 0.1)
    with pytest.raises(UsageError, match=r"--accuracy: 0\.52; expected at least 0\.55, "):
        epsilon_of_accuracy(0.52, 0.1)
    assert epsilon_of_auc(0.595, 0.1) == pytest.approx(0.0, abs=1e-9)
    assert epsilon_of_accuracy(0.55, 0.1) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("limit", [0.49, 1.0, math.nan])
@pytest.mark.parametrize("invert", [epsilon_of_auc, epsilon_of_accuracy])
def test_limits_out_of_range(invert: Any, limit: float) -> None:
    with pytest.raises(UsageError, match="below 1"):
        invert(limit)
    with pytest.raises(UsageError, match="delta"):
        invert(0.6, 1.0)


# --- riskcal: Kulynych et al. 2024, "Attack-aware noise calibration for differential privacy" ---------


@pytest.mark.parametrize(("eps", "delta"), [(0.1, 0.0), (1.2, 0.0), (1.2, 0.01), (4.5, 1e-5), (0.0, 0.1)])
def test_power_and_accuracy_of_an_epsilon_as_riskcal(eps: float, delta: float) -> None:
    riskcal = pytest.importorskip("riskcal.analysis")
    curve = TradeOff.of_epsilon(eps, delta)
    beta = np.array([riskcal.get_beta_from_adp(epsilon=eps, delta=delta, alpha=rate) for rate in RATES])
    np.testing.assert_allclose(curve.power(RATES), 1.0 - beta, atol=1e-9)
    advantage = riskcal.get_advantage_from_adp(epsilon=eps, delta=delta)
    assert float(curve.accuracy()) == pytest.approx(0.5 * (1.0 + advantage), abs=1e-9)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_power_and_accuracy_of_mu_as_riskcal(mu: float) -> None:
    riskcal = pytest.importorskip("riskcal.analysis")
    curve, inner = TradeOff.of_mu(mu), RATES[1:-1]
    np.testing.assert_allclose(curve.power(inner), 1.0 - riskcal.get_beta_from_gdp(mu, inner), atol=2e-4)
    assert float(curve.accuracy()) == pytest.approx(
        0.5 * (1.0 + riskcal.get_advantage_from_gdp(mu)), abs=1e-4
    )
