"""Attack plug-ins: one observer's view in, click scores out."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from foltr_audit.plugins.base import Plugin
from foltr_audit.rankers import known_ranker
from foltr_audit.records.view import Inference, View


class Attack(Plugin):
    """Reads clicks out of what one observer sees.

    Attributes:
        reads: message kinds that it understands.
        observers: whose views it understands: `individual`, `aggregate`.
        asks: what it answers: `clicks`; `query`, which of several lists a message came from; or
            `counts`, how many clients clicked each document of a sum.
        needs: names of `Knowledge` that it cannot do without.
        probabilities: whether its scores are probabilities, whose calibration is then reported.
        baseline: whether it is shown beside every other attack.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"model", "update"})
    observers: ClassVar[frozenset[str]] = frozenset({"individual"})
    asks: ClassVar[Literal["clicks", "query", "counts"]] = "clicks"
    needs: ClassVar[frozenset[str]] = frozenset({"features", "shown"})
    probabilities: ClassVar[bool] = False
    baseline: ClassVar[bool] = False

    def why_not(self, view: View) -> str | None:
        """Why this attack cannot run on a view, or None if it can."""
        if view.kind not in self.reads:
            return f"it reads messages of kind {', '.join(sorted(self.reads))}, not {view.kind}"
        if view.observer not in self.observers:
            return f"it reads {', '.join(sorted(self.observers))} views, not {view.observer} ones"
        if not known_ranker(view.knowledge.ranker):
            return f"no ranker {view.knowledge.ranker!r} is known, so how scores change with the model is not"
        missing = sorted(name for name in self.needs if not view.knowledge.has(name))
        return f"the observer does not know: {', '.join(missing)}" if missing else None

    def exact_posterior(self, view: View) -> bool:
        """Whether the patterns that it answers are the true posterior given all that a view knows."""
        del view
        return False

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """Scores and guesses for every shown document of a view. It has no access to the truth."""
        raise NotImplementedError
