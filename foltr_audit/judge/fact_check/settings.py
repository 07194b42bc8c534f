"""What a message may be under other facts than the declared ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from foltr_audit.core.records.view import Knowledge, View
from foltr_audit.judge.fact_check.sample import RoundSample
from foltr_audit.privacy.events import Ball

Model = Literal["round", "before", "after"]


@dataclass(frozen=True)
class StepSetting:
    """The facts that decide how a client's step follows from its clicks.

    Attributes:
        kind: what a message is, `model` or `update`.
        sign: -1 where messages hold the global model less the local one.
        model: which recorded model the clients started from: that of the round, or of its neighbours.
        pairs, normaliser: settings of PDGD.
        learning_rate: step size.
        clip: the ball that local models are kept in.
    """

    kind: str
    sign: int
    model: Model
    pairs: str
    normaliser: str
    learning_rate: float
    clip: Ball | None

    @classmethod
    def declared(cls, kind: str, known: Knowledge) -> StepSetting:
        """The setting that a header declares."""
        return cls(
            kind=kind,
            sign=1,
            model="round",
            pairs=str(known.pairs),
            normaliser=str(known.normaliser),
            learning_rate=float(known.learning_rate or 0.0),
            clip=known.clip,
        )

    def view(self, piece: RoundSample) -> View | None:
        """The messages as this setting reads them; None where the model is not recorded."""
        models = {"round": piece.view.parameters[0], "before": piece.before, "after": piece.after}
        model = models[self.model]
        if model is None:
            return None
        known = replace(
            piece.view.knowledge,
            pairs=self.pairs,
            normaliser=self.normaliser,
            learning_rate=self.learning_rate,
            clip=self.clip,
        )
        start = piece.view.parameters * 0.0 + model
        return replace(piece.view, kind=self.kind, parameters=start, knowledge=known)

    def changes(self, declared: StepSetting) -> dict[str, object]:
        """The facts that differ from the declared ones, by name."""
        found: dict[str, object] = {}
        for name in ("sign", "kind", "pairs", "normaliser", "learning_rate"):
            if getattr(self, name) != getattr(declared, name):
                found[name] = getattr(self, name)
        if self.model != declared.model:
            found["parameters"] = f"the model {self.model} the round" if self.model == "after" else _BEFORE
        if self.clip != declared.clip:
            found["clip_norm"] = None if self.clip is None else self.clip.norm
            if self.clip is not None:
                found["clip_ord"] = self.clip.ord
        return found


_BEFORE = "the model of the round before"


def describe(changes: dict[str, object]) -> str:
    """Changed facts in words.

    >>> describe({"sign": -1, "learning_rate": 0.1, "clip_norm": None})
    'sign -1, learning_rate 0.1, no clip'
    """
    words = []
    for name, value in changes.items():
        if name == "clip_norm" and value is None:
            words.append("no clip")
        elif name == "parameters":
            words.append(f"as parameters {value}")
        else:
            words.append(f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)
