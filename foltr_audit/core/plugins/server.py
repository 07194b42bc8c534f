"""Server plug-ins: what a server sends to each client."""

from __future__ import annotations

from collections.abc import Callable

from foltr_audit.core.plugins.base import Plugin
from foltr_audit.core.records.dataset import Dataset
from foltr_audit.core.records.round_context import Broadcast, RoundContext
from foltr_audit.rng import ClientStreams
from foltr_audit.utils.arrays import Features, Ints


class Server(Plugin):
    """A server of a federation; by default an honest one, which sends the same model to all clients.

    A subclass overrides `send` if it treats the clients of a training round differently, `training_features`
    if clients train on other features than those they rank by, and `cohort` if it chooses who takes part in a
    round. Randomness comes from `context.server_stream(purpose, round)` or the given streams only.
    """

    @property
    def isolates(self) -> bool:
        """Whether it sends such things that the sum of a round is the update of one client, its target."""
        return type(self).send is not Server.send

    @property
    def manipulates(self) -> bool:
        """Whether clients train on other features than those they rank by."""
        return type(self).training_features is not Server.training_features

    @property
    def chooses(self) -> bool:
        """Whether it chooses who takes part in a round."""
        return type(self).cohort is not Server.cohort

    def cohort(self, round_: int, drawn: Callable[[int], Ints]) -> Ints:
        """Ids of the clients that it asks to take part in a round, rising, int64 (n,).

        Args:
            round_: number of the round, from 0.
            drawn: the cohort that the protocol draws for a round.
        """
        return drawn(round_)

    def subtracts(self, cohort: int, *, reopens: bool) -> int:
        """How many messages of a cohort it can take out of their sum; by default none.

        Args:
            cohort: number of clients in a round.
            reopens: whether clients answer a second request to open a sum.
        """
        return 0

    def training_features(self, data: Dataset, draws: ClientStreams) -> tuple[Features, ...]:
        """The features on which clients train, all (documents, features) in the type of `data.features`.

        Interaction b of a client in a round trains on the b-th array, and on the first one after the last.

        Args:
            data: the documents, with the features by which clients rank.
            draws: one random stream for each document.

        Returns:
            One or more arrays; none if clients train on the features they rank by.
        """
        return ()

    def send(self, context: RoundContext) -> Broadcast | None:
        """What each client of the cohort `context.clients` (C,) receives; None if all receive the model.

        The target must receive the global model, `context.parameters` (P,).
        """
        return None
