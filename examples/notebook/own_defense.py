# %% [markdown]
# # A defense of your own
#
# A defense is a small class, and needs no package to be tried. This one rounds each number of a client's
# model to a coarse grid. It proves nothing: does it hide clicks all the same?

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


# %% [markdown]
# Three steps are three systems, and one call attacks them all.

# %%
spec = fa.Spec(
    data={"source": "synthetic:mq2007:150"},
    population={"clients": 1000},
    train={"rounds": 5},
    attack={"methods": ["olsr", "map"], "click_models": ["informational"]},
)
chains = [[Clip(norm=1.5), Coarse(step=step)] for step in (0.01, 0.1, 0.5)]
reports = fa.attack([spec.having({"defense": chain}) for chain in chains])
print(reports.summary())

# %% [markdown]
# The finest grid hides almost nothing. On the coarsest grid `map` reads no more than a guess, and `olsr`
# still finds most of the clicks: one attack that fails is no proof.

# %%
reports.save("own_defense.svg")
