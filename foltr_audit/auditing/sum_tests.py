"""Tests whether the noise of the other clients adds up to the declared law of their sum."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from foltr_audit.auditing.law_table import law_table
from foltr_audit.auditing.law_tests import (
    RESOLVED,
    LawTestResult,
    NoiseDraws,
    check_noise,
    check_pair,
    failure,
)
from foltr_audit.auditing.session import AuditSession
from foltr_audit.privacy.events import NoiseAddition

_FLOAT32 = 2.0**-24  # relative, of a message in that format


def failure_of_sums(session: AuditSession, members: int) -> tuple[str, str] | None:
    """The link whose noise does not add up in sums of `members` messages, and why; None if there is none.

    Tested only where the sum of one noise is the only randomness of a message.
    """
    noisy = [(link, event) for link, event in session.acts if isinstance(event, NoiseAddition)]
    if session.noise_of(members).law is None or len(noisy) != 1:
        return None
    link, event = noisy[0]
    law = event.law.summed(members - 1)
    table = law_table(law)
    if table is None:
        return None
    sums = [
        session.games.others.sums(members, message, np.arange(session.at_once))
        for message in range(session.games.messages)
    ]
    resolution = _resolution(session, members)
    if np.sqrt(law.variance) < RESOLVED * resolution:  # it drowns in the rounding
        return None
    tests: list[LawTestResult] = []
    for noise in sums:
        draws = NoiseDraws(noise, f"in the sum over {members - 1} other clients", resolution)
        tests += check_noise(draws, law, table)
    for one, other in pairwise(sums):
        tests += check_pair(one, other, table, "noise in sums is alike in two rounds")
    why = failure(tests, len(tests))
    return None if why is None else (link.name, why)


def _resolution(session: AuditSession, members: int) -> float:
    """The rounding error of a number of the sum, by the number format of messages or their encoding."""
    encoding = session.setup.chain.encoding
    if encoding is not None:
        return float(encoding.error * np.sqrt(members))
    if session.setup.spec.trace.dtype == "float64":
        return 0.0
    laws = [event.law for _, event in session.acts if isinstance(event, NoiseAddition)]
    size = max([1.0, *(float(np.sqrt(law.variance)) for law in laws)])
    return float(_FLOAT32 * size * np.sqrt(members))
