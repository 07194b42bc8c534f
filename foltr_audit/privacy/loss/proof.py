"""What noise has to hide, and the privacy loss that it proves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foltr_audit.privacy.loss.losses import PrivacyLoss
from foltr_audit.privacy.loss.norms import Norms


@dataclass(frozen=True, kw_only=True)
class SensitivityBound:
    """The distance between neighbours that noise has to hide.

    Attributes:
        apart: how far apart two neighbouring vectors may be, `stretch` included.
        parameters: coordinates P.
        grid: step of the grid that they lie on, 0 if on none.
        where: what the noise is on, for messages, e.g. `in the sum of 900 messages`.
        stretch: largest weight of a message in a sum over the smallest.
    """

    apart: Norms
    parameters: int
    grid: float
    where: str
    stretch: float = 1.0

    @property
    def l1_text(self) -> str:
        """The L1 distance in words, with a note where it follows from an L2 bound."""
        size, l2 = self.parameters, self.apart.l2
        stretched = size > 1 and math.isclose(self.apart.l1, math.sqrt(size) * l2, rel_tol=1e-9)
        note = f" (sqrt({size}) times {l2:.4g} in L2)" if stretched else ""
        return f"L1 distance {self.apart.l1:.4g}{note}"


@dataclass(frozen=True)
class LossProof:
    """A loss that is proven for one round, or why there is none.

    Attributes:
        loss: the loss; None where nothing is proven.
        how: in a few words.
        kind: what kind of noise it is, in a word or two.
        share: share of the clients in a secret sample that amplifies it; 1 where there is none.
        of_sum: it is about the noise of all clients together.
        spent: how much of delta goes to other ways to fail.
        whole: it is about all rounds together, so that it does not compose.
    """

    loss: PrivacyLoss | None
    how: str
    kind: str = ""
    share: float = 1.0
    of_sum: bool = False
    spent: float = 0.0
    whole: bool = False
