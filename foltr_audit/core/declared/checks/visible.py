"""What an observer sees in spite of the noise: lists, last bits, other weights, sums before the noise."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import PUBLISHED, DeclaredSystem
from foltr_audit.core.declared.findings import DeclarationFinding
from foltr_audit.privacy.accounting.walk import walk
from foltr_audit.privacy.observer_views import sees_lists


def unequal(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What clients of different weights do to a claim on sums."""
    if system.noises and not system.alike_in_number:
        yield DeclarationFinding(
            check="weights",
            severity="warning",
            field="clients",
            declared="noise, and clients of different weights",
            follows="they are weighted by their number of interactions: neither the noise nor the "
            "sensitivity of a sum is that of equal clients",
            right=None,
            mend="give all clients the same weight",
        )


def lists(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What lists that follow from clicks do to noise on what is sent."""
    claimed = any(claim.view is not None and sees_lists(claim.view) for claim in system.claims)
    if system.noises and system.lists_follow_clicks and system.lists_shown is not False:
        yield DeclarationFinding(
            check="lists",
            severity="error" if claimed or system.lists_shown else "warning",
            field=system.noises[0].name,
            declared="noise on the message",
            follows="a server that sees the shown lists reads the clicks on each from the next, whatever the "
            "noise on the message",
            right=None,
            mend="take --rank-with global, or one interaction a message, or hide the lists from the server",
        )


def last_bits(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What the number format of messages does to continuous noise."""
    if system.number_format == "float64" and walk(system.events, system.parameters or 1).shows_last_bits:
        yield DeclarationFinding(
            check="last bits",
            severity="warning" if system.server_noise else "error",
            field="last bits",
            declared="float64 messages",
            follows="those of float64 messages reveal what continuous noise was added to",
            right=None,
            mend="send float32, or add noise on a grid",
        )


def trusted_server(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Noise of the server, which is no protection against the server."""
    for claim in system.claims if system.server_noise else ():
        if claim.view not in (None, PUBLISHED):
            yield DeclarationFinding(
                check="server noise",
                severity="error",
                field="noise.added",
                declared="noise that the server adds",
                follows=f"a server that adds the noise has seen what is below it: for view {claim.view} no "
                "epsilon holds, only for those who see the published model",
                right=None,
                mend=f"claim it for view {PUBLISHED}, or let the clients add the noise",
            )
