"""The `population` table of a Spec: scenarios, the number of clients, and the cohort size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from foltr_audit.core.settings.base import Flag, SpecTable, canonical, left_out
from foltr_audit.core.settings.defaults import NO_POISONING, SCENARIO

if TYPE_CHECKING:
    from foltr_audit.core.plugins import Scenario


def parse_scenarios(text: str) -> tuple[Scenario, ...]:
    """The scenarios of a text that joins them by `+`, e.g. `intent-skew+quantity-skew:zipf=1`.

    Raises:
        PluginError: an unknown scenario or click model, or an invalid parameter.
    """
    from foltr_audit.core.plugins import ClickModel, Scenario
    from foltr_audit.core.plugins.registry import make
    from foltr_audit.privacy.noise.parse import parts

    scenarios = tuple(make(Scenario, part) for part in parts(text))
    for scenario in scenarios:
        for model in scenario.click_models:
            make(ClickModel, model)
    return scenarios


def canonical_scenarios(text: str) -> str:
    """The canonical text; scenarios keep their order.

    Raises:
        ValueError: one is given twice.
        PluginError: as `parse_scenarios`.
    """
    scenarios = parse_scenarios(text)
    names = [scenario.name for scenario in scenarios]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is given twice; expected each scenario once")
    return "+".join(scenario.text for scenario in scenarios)


class PopulationSpec(SpecTable):
    """Scenarios joined by `+`, the number of clients, and the number of clients in each round."""

    scenario: Annotated[str, AfterValidator(canonical_scenarios), Flag(form="list")] = Field(
        SCENARIO, description="How clients differ. May be repeated: scenarios are combined, as with +."
    )
    clients: int = Field(
        1000,
        ge=1,
        le=100_000_000,
        description="Number of clients; of a search log the most active users, or all of them if not given.",
    )
    cohort: Annotated[int | None, Flag(default="all")] = Field(
        None, ge=1, description="Number of clients sampled for each round."
    )

    separation: Annotated[int | None, left_out(1), Flag(default="1")] = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Rounds from one in which a client takes part to its next one, at least.",
    )

    cohorts: Annotated[Literal["sampled", "fixed"] | None, left_out("sampled"), Flag(default="sampled")] = (
        Field(
            None, description="Who takes part together: sampled, any clients, or fixed, always the same ones."
        )
    )

    poisoning: Annotated[str | None, canonical("poisoning", NO_POISONING), Flag(default=NO_POISONING)] = (
        Field(None, description="What malicious clients do, e.g. NAME:share=0.1 for one client in ten.")
    )

    @model_validator(mode="after")
    def _clients_fit(self) -> PopulationSpec:
        from foltr_audit.core.plugins import Poisoning
        from foltr_audit.core.plugins.registry import make

        if self.poisoning is not None and not make(Poisoning, self.poisoning).count(self.clients):
            raise ValueError(
                f"poisoning={self.poisoning}: no client of {self.clients} is malicious; "
                f"expected a share of {1 / self.clients:.3g} at least"
            )
        if self.cohort is not None and self.cohort > self.clients:
            raise ValueError(f"cohort={self.cohort}: expected at most the number of clients, {self.clients}")
        if self.rounds_apart * self.cohort_size > self.clients:
            raise ValueError(
                f"separation={self.separation}: cohorts of {self.cohort_size} out of {self.clients} clients; "
                f"expected at most {self.clients // self.cohort_size}, the cohorts without a common client"
            )
        together = self.rounds_apart * self.cohort_size
        if self.cohorts == "fixed" and self.clients % together:
            apart = f" times the separation {self.rounds_apart}" if self.rounds_apart > 1 else ""
            raise ValueError(
                f"cohorts=fixed: {self.clients} clients in cohorts of {self.cohort_size}{apart}; "
                "expected a number of clients that these divide"
            )
        return self

    @property
    def cohort_size(self) -> int:
        return self.clients if self.cohort is None else self.cohort

    @property
    def rounds_apart(self) -> int:
        """Rounds from one in which a client takes part to its next one, at least."""
        return self.separation or 1
