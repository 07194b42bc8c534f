"""Small audits for tests, and mechanisms that are broken on purpose."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.auditing.audit import Audit, Finding
from foltr_audit.auditing.session import Session
from foltr_audit.core.plugins import Ball, MessageDefense, PrivacyClaim, RoundContext, StepDefense
from foltr_audit.core.spec.audit import AuditSpec
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.simulation.setup import Setup

Floats = NDArray[np.float64]

EPS, SENSITIVITY = 1.2, 3.0
Broken = Literal[
    "", "half noise", "one noise for all coordinates", "one noise a round", "silent", "half scale"
]


class ToyClip(StepDefense):
    """Says that it keeps models in an L1 ball; `broken` does not do it."""

    name = "toy-clip"
    norm: float = SENSITIVITY / 2
    broken: bool = False

    @property
    def ball(self) -> Ball:
        return Ball(norm=self.norm, ord=1)

    def apply(self, parameters: Floats, context: RoundContext) -> Floats:
        return parameters.copy() if self.broken else super().apply(parameters, context)


class ToyLaplace(MessageDefense):
    """Says that it adds the whole Laplace noise of a sensitivity to every coordinate of every message."""

    name = "toy-laplace"
    broken: Broken = ""

    def law(self, context: RoundContext) -> GammaShare:
        del context
        return GammaShare(n=1, scale=SENSITIVITY / EPS)

    def apply(self, models: Floats, context: RoundContext) -> Floats:
        noise = self.law(context).sample(context.streams("toy-laplace"), models.shape[1])
        if self.broken in ("half noise", "half scale"):
            noise = noise / 2
        if self.broken == "one noise for all coordinates":
            noise = np.repeat(noise[:, :1], models.shape[1], axis=1)
        if self.broken == "one noise a round":
            noise = np.repeat(noise[:1], models.shape[0], axis=0)
        if self.broken == "silent":
            noise[np.all(models == context.parameters, axis=1)] = 0.0
        return np.asarray(models + noise)

    def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
        del context
        return (
            PrivacyClaim(
                mechanism=self.name, epsilon=EPS, unit="client", relation="replace-one", view="individual"
            ),
        )


def in_float32(setup: Setup) -> Setup:
    """The same experiment with messages in the default format, whose last bits tell nothing."""
    trace = setup.spec.trace.model_copy(update={"dtype": "float32"})
    found = Setup(setup.spec.model_copy(update={"trace": trace}), setup.collection)
    vars(found)["chain"] = setup.chain
    return found


def session(setup: Setup, parameters: Floats | None = None, **protocol: Any) -> Session:
    """The games of a small audit on a global model, of messages in float32."""
    setup = in_float32(setup)
    spec = AuditSpec(**{"trials": 200, "min_documents": 4, **protocol})
    audit = Audit(setup, spec)
    model = np.linspace(-0.3, 0.3, setup.ranker.n_parameters) if parameters is None else parameters
    return audit.session([model] * spec.messages)


def findings(setup: Setup, parameters: Floats | None = None, **protocol: Any) -> list[Finding]:
    """What a small audit finds, of messages in float32."""
    setup = in_float32(setup)
    spec = AuditSpec(**{"trials": 200, "min_documents": 4, "models": ("trained",), **protocol})
    model = np.linspace(-0.3, 0.3, setup.ranker.n_parameters) if parameters is None else parameters
    return list(Audit(setup, spec).findings({"trained": [model] * spec.messages}))
