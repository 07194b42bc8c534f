"""`foltr-audit list`: list plug-ins, or what a server may know."""

from __future__ import annotations

from typing import Annotated

import typer

from foltr_audit.cli.options import Json
from foltr_audit.cli.output import show, warn_of_unloadable
from foltr_audit.errors import UsageError, suggest_name

KNOWLEDGE = "knowledge"
KINDS = (
    *(
        "attacks",
        "defenses",
        "scenarios",
        "poisonings",
        "click-models",
        "learners",
        "client-steps",
        "servers",
    ),
    KNOWLEDGE,
)


def listing(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.")],
    json: Json = False,
) -> None:
    """Show plug-ins with their parameters, or what a server may know."""
    from foltr_audit.core.plugins.registry import GROUPS
    from foltr_audit.report.results.plugin_list import list_names

    if kind not in KINDS:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, KINDS)}")
    for base, group in GROUPS.items():
        if group.endswith(f".{kind.replace('-', '_')}"):
            warn_of_unloadable(base)
    found = list_names(kind)
    show(found.json, found.show, json=json)
