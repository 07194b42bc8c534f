"""In which stages a defense acts, and that what it declares there is what it does."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.defenses.clip import Clip

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Defense, ModelLearner, PrivacyClaim, RoundContext
from foltr_audit.errors import PluginError
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, upper_bound
from foltr_audit.privacy.events import OpaqueChange
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.simulation.learners.fpdgd import FPDGD
from foltr_audit.utils.arrays import Floats
from tests.fixtures.tiny import ToyMessage, context


def test_a_defense_that_only_claims_is_refused() -> None:
    with pytest.raises(PluginError, match="defense toy-idle: it declares noise or a claim but does nothing"):

        class _Idle(Defense):
            name: ClassVar[str] = "toy-idle"

            def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
                return self.claims_for(["individual"], "client", 1.0)


class _SignTwice(Defense):
    """Sends signs, and does something at the server too; it states no events."""

    name: ClassVar[str] = "toy-sign-twice"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return np.sign(models)

    def on_aggregate(self, aggregate: Floats, *given: object) -> Floats:
        return aggregate.copy()


class _LateScale(Defense):
    """Scales models after every step, and adds noise to the message."""

    name: ClassVar[str] = "toy-late-scale"

    def on_step(self, models: Floats, context: RoundContext) -> Floats:
        return models * 1000

    def law(self, context: RoundContext) -> Gaussian:
        return Gaussian(sigma=1.0)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models + 1.0


@pytest.mark.parametrize("link", [_SignTwice(), _LateScale()])
def test_a_defense_of_several_stages_is_an_unknown_change_in_each(link: Defense) -> None:
    acts = DefenseChain((link,)).acts(context([0], P=2))
    assert [event for _, event in acts] == [OpaqueChange(mechanism=link.name)] * 2


def test_an_unknown_change_before_a_secure_sum_is_no_change_of_the_sum() -> None:
    """Noise of shares proves nothing of a sum whose messages were changed after it."""
    texts = ["clip:norm=1+skellam:sigma=1,step=0.0009765625", "secure-aggregation"]
    first, last = (parse_chain([text]) for text in texts)
    situation = AccountingContext(
        view="aggregate", unit="interaction", parameters=4, members=SumMembers(cohort=100), delta=1e-5
    )
    here = context([0], P=4, shares=100)
    proven = upper_bound(DefenseChain((*first, *last)).events(here), situation).epsilon
    changed = upper_bound(DefenseChain((*first, _SignTwice(), *last)).events(here), situation).epsilon
    assert changed > 2 * proven


def test_stages_that_are_none_are_refused() -> None:
    class _Odd(ToyMessage):
        @property
        def stages(self) -> Any:
            return "message"

    said = "defense toy-message: stages gave 'message'; expected a tuple out of"
    with pytest.raises(PluginError, match=said):
        DefenseChain((_Odd(),)).links("message")


def test_code_of_a_mixin_is_not_skipped_by_the_compiled_loop() -> None:
    class _Noisy(Defense):
        def on_step(self, models: Floats, context: RoundContext) -> Floats:
            return models + 1.0

    with pytest.raises(PluginError, match="defense clip: on_step and ball come from different classes"):

        class _Both(_Noisy, Clip):
            pass


def test_code_of_a_mixin_is_no_compiled_step() -> None:
    class _Own(ModelLearner):
        def local_step(self, parameters: Floats, *given: Any) -> Any:
            return parameters, np.zeros(len(parameters), dtype=np.bool_)

    with pytest.raises(PluginError, match="learner fpdgd: local_step and compiled_step come from different"):

        class _Both(_Own, FPDGD):
            pass
