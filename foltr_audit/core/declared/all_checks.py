"""Every check of declarations: those of a chain, which every command warns of, and those of `lint`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from foltr_audit.core.declared.checks.batch import batch, relation, units
from foltr_audit.core.declared.checks.links import filled_coordinates, several_noises
from foltr_audit.core.declared.checks.noise_scale import noise_scale
from foltr_audit.core.declared.checks.proof import proof
from foltr_audit.core.declared.checks.rounds import rounds, sampling
from foltr_audit.core.declared.checks.sensitivity import sensitivity
from foltr_audit.core.declared.checks.shares import shares
from foltr_audit.core.declared.checks.statement import delta, restated, statement
from foltr_audit.core.declared.checks.sum_noise import sum_noise
from foltr_audit.core.declared.checks.visible import last_bits, lists, trusted_server, unequal
from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.declared.findings import DeclarationFinding
from foltr_audit.core.warning_codes import CodedWarning

Check = Callable[[DeclaredSystem], Iterator[DeclarationFinding]]

CHAIN_CHECKS: Sequence[Check] = (
    *(sensitivity, shares, several_noises, filled_coordinates, sum_noise, batch, unequal, lists, last_bits),
)
"""What every command that runs a chain warns of."""

ALL_CHECKS: Sequence[Check] = (
    *(*CHAIN_CHECKS, noise_scale, units, relation, rounds, sampling, trusted_server, restated),
    *(proof, delta, statement),
)


def findings(system: DeclaredSystem, checks: Sequence[Check] = ALL_CHECKS) -> tuple[DeclarationFinding, ...]:
    """What checks find, each finding once, errors first.

    Where nothing is claimed, no claim can be wrong: only what contradicts itself is then an error.
    """
    found = dict.fromkeys(
        finding if system.claims or check is restated else replace(finding, severity="warning")
        for check in checks
        for finding in check(system)
    )
    return tuple(sorted(found, key=lambda finding: finding.severity != "error"))


def warnings(system: DeclaredSystem) -> tuple[CodedWarning, ...]:
    """What the checks of a chain find, one line each."""
    found = dict.fromkeys(finding for check in CHAIN_CHECKS for finding in check(system))
    return tuple(finding.warning for finding in found)
