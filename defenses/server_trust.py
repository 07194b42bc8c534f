"""FLTrust: the server weighs every update by how far it points where its own update points."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.plugins import Defense, RoundContext
from foltr_audit.utils.arrays import Floats


class ServerTrust(Defense):
    """The server learns from a few labelled queries of its own, and trusts updates that point the same way.

    The trust in an update is its cosine with the update of the server, or 0 where that is negative. Every
    update is scaled to the length of that one, and the new model moves by their mean weighted by trust.
    Without any trust, or if the server learnt nothing, the model stays. The numbers of interactions do not
    count.

    The server's queries are drawn once from the training part. In each round it takes as many local steps as
    a client, from lists that the model ranks and clicks by its labels, without any defense.

    Guarantees: no privacy, for any relation, unit or view: the server has each message before it weighs it.
    All bounds on sums are lost; noise that a client added to its own message still protects it. No client
    moves the global model by more than the length of the server's update.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Cao, Fang, Liu & Gong 2021, "FLTrust: Byzantine-robust federated learning via trust
    bootstrapping", section 4, with a global learning rate of 1.
    """

    name: ClassVar[str] = "fltrust"

    queries: int = Field(10, ge=1, description="labelled queries of the training part that the server owns")

    @property
    def server_queries(self) -> int:
        return self.queries

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The mean of the scaled messages by trust, float64 (P,).

        Without any message, or where the server has no update of its own, the average.
        """
        if not len(messages) or context.server_update is None:
            return aggregate.copy()
        centre = context.parameters if context.message == "model" else np.zeros(aggregate.size)
        own = context.server_update
        # Sums over the first axis add one coordinate after the other, on every processor.
        columns = np.ascontiguousarray((messages - centre).T)
        lengths = np.sqrt(np.square(columns).sum(axis=0))
        length = np.sqrt(np.square(own[:, np.newaxis]).sum(axis=0))
        both = lengths * length
        inner = (columns * own[:, np.newaxis]).sum(axis=0)
        trust = np.maximum(np.divide(inner, both, out=np.zeros_like(both), where=both > 0), 0)
        if not trust.any():
            return np.array(centre, dtype=np.float64)
        shares = np.divide(trust / trust.sum() * length, lengths, out=np.zeros_like(trust), where=trust > 0)
        return np.asarray(centre + (shares[:, np.newaxis] * columns.T).sum(axis=0))
