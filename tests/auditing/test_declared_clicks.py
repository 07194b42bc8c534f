"""Click defenses that lie less often than they declare are found; honest ones are not accused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.audit_faults import CHAINS
from benchmarks.faults import CLICK_FAULTS, broken
from foltr_audit.auditing.verdict import FALSE
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.privacy.events import ClickRandomization
from tests.auditing.test_declarations import audited, declared
from tests.conftest import SetupOf


@pytest.mark.parametrize("fault", CLICK_FAULTS)
def test_clicks_that_are_randomised_less_than_declared_are_found(fault: str, setup_of: SetupOf) -> None:
    setup = setup_of(defense=CHAINS["click-rr"], clients=5)
    for found in audited(broken(setup, fault), views=("individual",)):
        assert found.declared == "broken"
        assert found.verdict in FALSE


class UnaryEncoding(Defense):
    """Reports a click with probability 1/2, and a document without one with 1 / (1 + e^eps)."""

    name = "toy-unary-encoding"
    eps: float = 1.0
    ahead: bool = False

    def on_clicks(
        self, clicks: NDArray[np.bool_], shown: NDArray[np.int64], step: int, context: RoundContext
    ) -> NDArray[np.bool_]:
        k = clicks.shape[1]
        streams = context.streams("unary")
        if self.ahead:  # all interactions at once, as their number allows
            several = int(context.counts.max(initial=1))
            drawn = streams.uniform(k * several).reshape(-1, several, k)[:, step]
        else:
            drawn = streams.uniform(k, first=step * k)
        return np.where(clicks, drawn < 0.5, drawn < 1 / (1 + np.exp(self.eps))) & (shown >= 0)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return (ClickRandomization(epsilon=self.eps),)


@pytest.mark.parametrize("ahead", [False, True])
def test_clicks_that_lie_more_often_than_others_are_as_declared(ahead: bool, setup_of: SetupOf) -> None:
    """Their flips go with the clicks, and so with each other; nothing beyond the run is asked for."""
    setup = setup_of(chain=(UnaryEncoding(ahead=ahead),), rounds=1)
    for interactions in (1, 3):
        assert declared(setup, interactions=interactions).state == "as declared"
    assert declared(setup_of(chain=(UnaryEncoding(eps=0.5),))).state == "as declared"


@pytest.mark.parametrize("text", ["click-rr:keep=0.999", "click-rr:eps=7"])
def test_rare_lies_are_as_declared(text: str, setup_of: SetupOf) -> None:
    """Two that fall together by chance were too many for the normal law of a correlation."""
    for seed in range(20):
        found = declared(setup_of(defense=(text,), seed=seed), interactions=4)
        assert found.state == "as declared", (seed, found.why)
