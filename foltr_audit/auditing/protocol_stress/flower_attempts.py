"""Attempts on the SecAgg+ of Flower, played in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from foltr_audit.auditing.protocol_stress.all_attempts import FEWEST_CLIENTS, StressAttempts
from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt, StressActor, StressOutcome
from foltr_audit.auditing.protocol_stress.share_attempts import BELL, BONAWITZ
from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import json_table

PROGRAM = Path(__file__).with_name("flower_program.py")

_CURIOUS: StressActor = "honest-but-curious server"
_ACTIVE: StressActor = "active server"
_ABOUT: dict[str, tuple[StressActor, bool, str]] = {
    "look at a message": (_CURIOUS, True, "Bonawitz et al. 2017, section 4"),
    "counts in clear": (_CURIOUS, False, "Bonawitz et al. 2017, section 2"),
    "both shares": (_ACTIVE, False, BONAWITZ),
    "replayed round": (_ACTIVE, False, BONAWITZ),
    "two lists, threshold of the server": (_ACTIVE, False, f"{BONAWITZ}; {BELL}"),
    "impersonated keys": (_ACTIVE, False, BONAWITZ),
    "inconsistent models": (_ACTIVE, False, "Pasquini et al. 2022"),
    "seed reuse": (_CURIOUS, True, "Bonawitz et al. 2017, section 4"),
    "seeds of 32 bits": (_ACTIVE, False, "Bonawitz et al. 2017, section 4"),
}
"""Who departs from the protocol in an attempt, whether it is promised to hold, and who describes it."""


@dataclass(frozen=True, kw_only=True)
class FlowerAttempts:
    """What a server that cheats gets out of Flower's clients.

    Attributes:
        version: of Flower.
        threshold: shares that reconstruct a secret where the server does not set another number.
        tried: the attempts.
    """

    version: str
    threshold: int
    tried: StressAttempts


def flower_attempts(python: Path, clients: int, parameters: int, seed: int) -> FlowerAttempts:
    """Run all attempts with the Python of an environment with Flower.

    Raises:
        UsageError: there is no such program, or Flower is missing or too different in it.
    """
    if clients < FEWEST_CLIENTS or parameters < 1:
        raise UsageError(f"--clients, --parameters: expected at least {FEWEST_CLIENTS} and 1")
    command = [str(python), str(PROGRAM), str(clients), str(parameters), str(seed)]
    with tempfile.TemporaryDirectory() as home:
        settings = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": home}
        try:
            done = subprocess.run(  # noqa: S603  the user names the program
                command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise UsageError(
                f"--flower: {python}: {error.strerror}; expected the Python of an environment with Flower"
            ) from error
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(f"--flower: {python}: {why}; expected an environment with Flower 1.41")
    return _read(done.stdout)


def _read(text: str) -> FlowerAttempts:
    """The attempts from what the program printed.

    Raises:
        UsageError: it printed something else.
    """
    found = json_table((text.splitlines() or [""])[-1], "--flower: what its program printed", UsageError)
    try:
        rows = [_attempt(row) for row in cast("list[dict[str, str]]", found["rows"])]
        return FlowerAttempts(
            version=str(found["version"]),
            threshold=int(str(found["threshold"])),
            tried=StressAttempts(attempts=tuple(rows), tries_per_second=float(str(found["rate"]))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"--flower: its program printed no attempts ({error!r:.60})") from error


def _attempt(row: dict[str, str]) -> ProtocolAttempt:
    actor, promised, source = _ABOUT[row["name"]]
    return ProtocolAttempt(
        name=row["name"],
        actor=actor,
        does=row["does"],
        sent=row["sent"],
        outcome=cast(StressOutcome, row["outcome"]),
        learnt=row["learnt"],
        promised=promised,
        answer=row["answer"] or None,
        source=source,
    )
