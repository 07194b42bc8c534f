"""Two neighbouring inputs of one client: click logs, or local models as they are before the step stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.scripted import GameClients, LocalResult
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import RoundContext
from foltr_audit.utils.arrays import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class _CanaryBase:
    """What both kinds of canaries have in common.

    Attributes:
        name: one of `core.settings.audit.Canary`.
        unit: what the two differ in.
        about: the pair in words.
        shift: the distance of their messages, or of their lists, without noise, that the search maximised.
    """

    name: str
    unit: str
    about: str
    shift: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LogCanary(_CanaryBase):
    """Two click logs of the same length.

    Attributes:
        queries: int64 (2, B).
        clicks: bool (2, B, k).
    """

    queries: Ints
    clicks: Bools

    def play(
        self,
        clients: GameClients,
        which: Ints,
        context: RoundContext,
        chain: DefenseChain | None = None,
        *,
        sampled: bool = False,
    ) -> LocalResult:
        """The local models that the clients learn from their logs, and their lists."""
        return clients.play(self.queries[which], self.clicks[which], context, chain, sampled=sampled)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCanary(_CanaryBase):
    """Two local models as they are before the step stage.

    Attributes:
        models: float64 (2, P).
    """

    models: Floats

    def play(
        self,
        clients: GameClients,
        which: Ints,
        context: RoundContext,
        chain: DefenseChain | None = None,
        *,
        sampled: bool = False,
    ) -> LocalResult:
        """The models after the step stage; there are no lists."""
        every = np.ones(which.size, dtype=np.bool_)
        after, _ = (chain or clients.setup.chain).on_step(self.models[which], every, 0, context)
        return LocalResult(after, None)


Canary = LogCanary | ModelCanary
"""Two neighbouring inputs of one client. Both kinds are played alike; see `GameClients.play`."""
