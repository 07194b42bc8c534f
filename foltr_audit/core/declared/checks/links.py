"""Links of a chain that spoil what others do."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.declared.findings import DeclarationFinding
from foltr_audit.privacy.events import NoiseAddition


def several_noises(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Several defenses that add noise, each with a claim of its own."""
    names = [step.name for step in system.noises]
    if len(names) > 1:
        yield DeclarationFinding(
            check="several noises",
            severity="warning",
            field="noise",
            declared=f"noise of {', '.join(names)}",
            follows=f"several defenses add it ({', '.join(names)}): each claim accounts only for "
            "its own noise",
            right=None,
            mend="add one noise, computed for the claim",
        )


def filled_coordinates(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Coordinates that are left out before noise fills them again."""
    places = [place for place, step in enumerate(system.steps) if isinstance(step.event, NoiseAddition)]
    for step in system.steps[: places[-1]] if places else ():
        if step.leaves_out:
            yield DeclarationFinding(
                check="sparse messages",
                severity="warning",
                field=step.name,
                declared="coordinates that are left out",
                follows="later noise fills the coordinates it sets to zero",
                right=None,
                mend="put it after the noise",
            )
