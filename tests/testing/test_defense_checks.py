"""Defenses whose hooks break their contract fail the suite, with the check and the reason."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from foltr_audit.core.plugins import (
    Defense,
    RoundContext,
    WireMessages,
)
from foltr_audit.privacy.secure_aggregation import FixedPoint
from foltr_audit.testing import ContractError, check_defense
from foltr_audit.utils.arrays import Bools, Floats, Ints


class NFromTheArray(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "n-from-array"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = context.streams("wrong").uniform(models.shape[1])
        return np.asarray(models + noise / max(1, models.shape[0]))


class HandsBack(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "hands-back"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models


class Unseeded(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "unseeded"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models + np.random.default_rng().normal(size=models.shape)


class Shorter(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "shorter"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models[:, :1].copy()


class ClicksAtThePadding(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "at-padding"

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        return ~clicks


class AddsWrongly(Defense):
    """Guarantees: nothing."""

    name: ClassVar[str] = "adds-wrongly"

    @property
    def encoding(self) -> FixedPoint:
        return FixedPoint(bits=48, range=64.0, fraction=24)

    def on_wire(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        codes = self.encoding.encode(messages, context.counts, context.clients, summed=False)
        total = codes.sum(axis=0, dtype=np.uint64)  # with the lost ones
        return WireMessages(
            messages=codes, survivors=survivors.copy(), total=total, sum=self.encoding.decode(total)
        )


class Untold(Defense):
    name: ClassVar[str] = "untold"

    size: int = 3


SLOPPY: list[tuple[type[Defense], str, str]] = [
    (NFromTheArray, "a client alone", "n comes from context.shares"),
    (NFromTheArray, "depends on shares", "n comes from context.shares"),
    (HandsBack, "same seed", "expected a new array from on_message; found the array that it was given"),
    (Unseeded, "same seed", "the same output for the same input, round and seed"),
    (Shorter, "same seed", r"expected shape \(5, 6\) from on_message; found shape \(5, 1\)"),
    (ClicksAtThePadding, "same seed", "expected no click at the padding"),
    (AddsWrongly, "a secure sum", "a sum that is off by"),
    (Untold, "what it is", "expected a docstring of its own; found none"),
]


@pytest.mark.parametrize(("cls", "check", "why"), SLOPPY, ids=lambda part: getattr(part, "name", None))
def test_a_sloppy_defense_is_found(cls: type[Defense], check: str, why: str) -> None:
    with pytest.raises(ContractError, match=f"defense {cls.name}.*{check}.*{why}") as error:
        check_defense(cls)
    assert error.value.plugin.startswith(f"defense {cls.name}")
    assert any(check in name for name in error.value.failures)
