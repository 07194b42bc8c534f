"""Tests whether noise in sums is as declared: the sum of the other clients' noise, and noise on the sum."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

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
from foltr_audit.auditing.round_tests import check_rounds
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.auditing.session import AuditSession
from foltr_audit.core.plugins import Defense
from foltr_audit.privacy.events import CorrelatedNoise, NoiseAddition
from foltr_audit.privacy.factorization import hidden_rows
from foltr_audit.privacy.noise import AdditiveNoise, Gaussian

_FEWEST_SUMS, _SUMMED_NUMBERS = 256, 1 << 14  # that are tested: each is a sum over all clients
_ROUNDS = 24  # of each run
_FEWEST_RUNS, _NUMBERS = 64, 40_000
_FLOAT32 = 2.0**-24  # relative, of a message in that format


class SumTest(NamedTuple):
    """What tests of the noise in sums showed.

    Attributes:
        law: the law that the noise of the other clients was shown to follow; None if it was not, or if
            nothing could be tested.
        failed: the link whose noise does not add up, and why; None if there is none.
    """

    law: AdditiveNoise | None = None
    failed: tuple[str, str] | None = None


def check_sums(session: AuditSession, members: int) -> SumTest:
    """Test whether the noise of the other clients adds up in sums of `members` messages, on some trials.

    Tested only where the sum of one noise is the only randomness of a message. Each trial plays all clients.
    """
    noisy = [(link, event) for link, event in session.acts if isinstance(event, NoiseAddition)]
    if session.noise_of(members).law is None or len(noisy) != 1:
        return SumTest()
    link, event = noisy[0]
    law = event.law.summed(members - 1)
    table = law_table(law)
    if table is None:
        return SumTest()
    trials = min(session.at_once, max(_FEWEST_SUMS, _SUMMED_NUMBERS // session.clients.parameters.size))
    sums = [
        session.games.others.played_sums(members, message, np.arange(trials))
        for message in range(session.games.messages)
    ]
    resolution = _resolution(session, members)
    if np.sqrt(law.variance) < RESOLVED * resolution:  # it drowns in the rounding
        return SumTest()
    tests: list[LawTestResult] = []
    for noise in sums:
        draws = NoiseDraws(noise, f"in the sum over {members - 1} other clients", resolution)
        tests += check_noise(draws, law, table)
    for one, other in pairwise(sums):
        tests += check_pair(one, other, table, "noise in sums is alike in two rounds")
    why = failure(tests, len(tests))
    return SumTest(law=law) if why is None else SumTest(failed=(link.name, why))


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


def check_sum_noise(
    link: Defense, event: CorrelatedNoise, clients: GameClients, place: int
) -> Iterator[LawTestResult]:
    """Test the noise that a link adds to the sums of all rounds, in runs of several seeds.

    What C makes of it must be independent noise of the declared sigma in each round and run, whatever the
    weights of messages are; see `foltr_audit.privacy.factorization`.
    """
    law = Gaussian(sigma=event.sigma)
    table, size = law_table(law), clients.parameters.size
    runs = max(_FEWEST_RUNS, _NUMBERS // (_ROUNDS * size))
    noise = np.empty((_ROUNDS, runs, size))
    largest = np.array([0.75, 0.25])
    messages = np.zeros((largest.size, size))
    for run in range(runs):
        for round_ in range(_ROUNDS):
            prefix = f"audit/law/sum/{run}/defense/{place}/"
            context = clients.context(round_, np.arange(largest.size), prefix)
            noise[round_, run] = link.on_aggregate(np.zeros(size), messages, largest, context) / largest.max()
    independent = hidden_rows(noise.reshape(_ROUNDS, -1), event.bands).reshape(noise.shape)
    if table is not None:
        where = "the sum, less that of rounds before,"
        yield from check_rounds(independent, law, table, where, float(_FLOAT32 * np.abs(noise).max()))
