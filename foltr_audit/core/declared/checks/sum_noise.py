"""Noise that an aggregator adds to the sums of all rounds: bounds before it, and over how many rounds."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.declared.findings import DeclarationFinding
from foltr_audit.privacy.accounting.walk import walk
from foltr_audit.privacy.events import CorrelatedNoise


def sum_noise(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Noise on sums of messages that are not bounded, or that is correlated for too long."""
    for place, step in enumerate(system.steps):
        if not isinstance(step.event, CorrelatedNoise):
            continue
        noise = walk(system.events[: place + 1], system.parameters or 1).sum_noises[-1]
        if not noise.apart.known:
            yield DeclarationFinding(
                check="sum noise",
                severity="error" if system.complete else "warning",
                field=step.name,
                declared="noise on the sums",
                follows=f"{noise.unbounded}: it hides no client",
                right=None,
                mend="clip each message before the sum",
            )
        elif step.event.bands > system.separation:
            yield DeclarationFinding(
                check="sum noise",
                severity="warning",
                field=step.name,
                declared=f"noise of {step.event.bands} bands",
                follows=f"the noise of {step.event.bands} rounds is correlated, but a client may take part "
                f"again after {system.separation}: the bound of the whole run is larger than it could be",
                right=float(system.separation),
                mend=f"let clients wait for {step.event.bands} rounds, or lower the number of bands",
            )
