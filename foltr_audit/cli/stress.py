"""`foltr-audit stress`: put a protocol through what a server or a network can do to it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.lazy import LazyGroup
from foltr_audit.cli.options import Json, option
from foltr_audit.cli.output import show
from foltr_audit.core.settings.defaults import SECURE_AGGREGATION
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.report.results.protocol_stress import ProtocolStressReport

app = typer.Typer(
    cls=LazyGroup,
    help="Put a protocol through every way in which a server can cheat or a network can fail.",
    no_args_is_help=True,
)


@app.command(SECURE_AGGREGATION)
def secure_aggregation(
    clients: int = option("Number of clients of the round.", 40),
    parameters: int = option("Number of coordinates of a message.", 46),
    seed: int = option("Seed of messages, counts and secrets.", 0),
    defense: str = option("The defense with its parameters.", SECURE_AGGREGATION),
    flower: Path | None = option(
        "Try the clients of Flower's SecAgg+ instead, with the Python of an environment that has Flower 1.41."
    ),
    json: Json = False,
) -> None:
    """Try to get one client's message out of secure aggregation, and name what stops each attempt.

    Exit code 1 if a row is broken that the protocol promises for a server that follows it. See
    docs/stress.md.
    """
    from foltr_audit.auditing.protocol_stress.all_attempts import attempts, drawn_round
    from foltr_audit.auditing.protocol_stress.flower_attempts import flower_attempts
    from foltr_audit.core.defense_chain import parse_chain
    from foltr_audit.privacy.secure_aggregation import SecureSum
    from foltr_audit.report.results.protocol_stress import ProtocolStressReport

    if flower is not None:
        if defense != SECURE_AGGREGATION:
            raise UsageError("--defense: not with --flower, whose clients are those of Flower")
        found = flower_attempts(flower, clients, parameters, seed)
        _show(ProtocolStressReport.of_flower(found, clients, parameters, seed), json=json)
        return
    chain = parse_chain([defense])
    protocol = getattr(chain[0], "protocol", None) if len(chain) == 1 else None
    if not isinstance(protocol, SecureSum):
        raise UsageError(
            f"--defense: {defense!r}; expected {SECURE_AGGREGATION} alone, with parameters or not"
        )
    once, bind = getattr(chain[0], "once", None) is not False, bool(getattr(chain[0], "bind", False))
    stage = drawn_round(protocol, clients, parameters, seed, once=once, bind=bind)
    _show(ProtocolStressReport.of(defense, seed, stage, attempts(stage)), json=json)


def _show(report: ProtocolStressReport, *, json: bool) -> None:
    from foltr_audit.report.tables.protocol_stress import print_stress

    show(report.json, partial(print_stress, report), json=json)
    if not report.kept:
        raise typer.Exit(1)
