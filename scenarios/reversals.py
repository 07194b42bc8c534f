"""Malicious clients that reverse what honest ones would do: their clicks or their updates.

Source: Wang & Zuccon 2023, "An analysis of untargeted poisoning attack and defense methods for federated
online learning to rank systems", data poisoning, for clicks in reverse.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.plugins import Poisoning, RoundContext
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.utils.arrays import Bools, Floats


class ReversedClicks(Poisoning):
    """Malicious clients click on documents that are not relevant.

    They click with probability 1, .5, 0 for labels 0 to 2, and 1, .8, .6, .2, 0 for labels 0 to 4. They read
    the whole list: no click ends it. They learn from these clicks as honest clients do, and follow the
    defenses.

    Example:
        >>> ReversedClicks(share=0.3).text
        'reversed-clicks:share=0.3'
    """

    name: ClassVar[str] = "reversed-clicks"

    @property
    def click_model(self) -> str:
        """The clicks of the `perfect` click model with the grades in reverse."""
        return "reversed"


class GradientReversal(Poisoning):
    """Malicious clients send their own update g in reverse, longer and with noise: -2 gamma g + mu.

    Each client draws gamma uniformly from (1, 2) in each round. Each coordinate of mu is normal, with the
    mean and the standard deviation of the coordinates of g. Nothing is proven by mu: the noise of defenses is
    not in what they send.

    Example:
        >>> GradientReversal(share=0.3).text
        'gradient-reversal:share=0.3'
    """

    name: ClassVar[str] = "gradient-reversal"

    @property
    def knows_others(self) -> bool:
        """No: each client starts from its own update."""
        return False

    def on_updates(self, updates: Floats, malicious: Bools, context: RoundContext) -> Floats:
        """See `Poisoning`; no client needs to know the update of another."""
        rows = np.flatnonzero(malicious)
        own, here = updates[rows], context.at(rows)
        gamma = 1 + here.streams(f"poisoning/{self.name}/length").uniform(1)
        normal = Gaussian(sigma=1.0).sample(here.streams(f"poisoning/{self.name}/noise"), own.shape[1])
        mu = own.mean(axis=1, keepdims=True) + own.std(axis=1, keepdims=True) * normal
        return self.replaced(updates, malicious, -2 * gamma * own + mu)
