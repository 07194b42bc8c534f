"""Whether recorded coins look fair and independent, as a bound from guesses needs them to be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.auditing.coin_scores import telling
from foltr_audit.errors import UsageError
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Bools, Ints

_LEVEL = 1e-6  # probability that fair coins are refused, all tests together


def refuse_unfair(coins: Bools, clients: Ints) -> None:
    """Refuse coins that one seldom sees of fair, independent ones: less than once in a million audits.

    Counted are ones; coins that are equal to the coin before; and coins that are equal to the coin before of
    the same client. Each count is binomial with 1/2 if coins are fair and independent. Coins that depend on
    the clicks or on each other in another way are not noticed.

    Args:
        coins: how they fell, bool (m,), in the order of rounds and messages.
        clients: who tossed each, int64 (m,).

    Raises:
        UsageError: they are such coins.
    """
    tests = list(_counts(coins, clients))
    for count, total, what in tests:
        if _two_sided(count, total) < _LEVEL / len(tests):
            raise UsageError(
                f"audit: {count} of {total} coins {what}; expected independent fair coins, without which no "
                "bound holds"
            )


def tossed(store: RoundStore) -> tuple[Bools, Ints]:
    """All coins of a store between two different patterns, bool (m,), and who tossed each, int64 (m,)."""
    coins, clients = [np.zeros(0, np.bool_)], [np.zeros(0, np.int64)]
    for record, truth in zip(store.rounds(), store.truths(), strict=True) if store.has_truth else ():
        here = telling(truth)
        if truth.coins is not None:
            coins.append(truth.coins[here] == 1)
            clients.append(truth.clients[record.slot[here]].astype(np.int64))  # alike only where they were
    return np.concatenate(coins), np.concatenate(clients)


def _counts(coins: Bools, clients: Ints) -> Iterator[tuple[int, int, str]]:
    yield int(coins.sum()), coins.size, "are 1"
    same = coins[1:] == coins[:-1]
    yield int(same.sum()), same.size, "are equal to the coin before"
    order = np.argsort(clients, kind="stable")
    mine = clients[order][1:] == clients[order][:-1]
    same = (coins[order][1:] == coins[order][:-1])[mine]
    yield int(same.sum()), same.size, "are equal to the coin before of the same client"


def _two_sided(count: int, total: int) -> float:
    """Probability that a binomial count with 1/2 is as far from total / 2 as this one."""
    from scipy import special

    few = min(count, total - count)
    return min(1.0, 2.0 * float(special.bdtr(few, total, 0.5))) if total else 1.0
