# %% [markdown]
# # Attack a defense of your own
#
# A defense of one's own, attacked without a package: rounding each update to a coarse grid.

# %%
from typing import ClassVar

import numpy as np
from foltr_audit.defenses.clip import Clip
from pydantic import Field

import foltr_audit as fa
from foltr_audit.plugins import Defense, RoundContext, Stage


class Coarse(Defense):
    """Sends each number of the model as the nearest multiple of a step; it proves nothing."""

    stages: ClassVar[tuple[Stage, ...]] = ("message",)
    step: float = Field(0.1, gt=0, description="distance of two values that can be sent")

    def on_message(self, models: np.ndarray, context: RoundContext) -> np.ndarray:
        """The nearest multiples."""
        return np.round(models / self.step) * self.step


spec = fa.Spec(
    data={"source": "synthetic:mq2007:150"},
    population={"clients": 100},
    train={"rounds": 5},
    attack={"methods": ["olsr", "map"], "click_models": ["informational"]},
)
chains = [[Clip(norm=1.5), Coarse(step=step)] for step in (0.01, 0.1, 0.5)]
reports = fa.attack([spec.having({"defense": chain}) for chain in chains])

print(reports.summary())
print(reports.warnings[0].warning if reports.warnings else "no warning")

# %%
reports.save("own_defense.svg")
