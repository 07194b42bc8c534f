"""The experiment of Pham 2022: one fresh client per query shows, clicks, learns, defends and sends.

Source: Pham 2022, "Federated learning for online learning to rank", section 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.records.dataset import QueryOrigin
from foltr_audit.core.records.interactions import GlobalModel
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import DataError
from foltr_audit.simulation.evaluation import OnlineMetrics
from foltr_audit.simulation.federation import RoundResult, make_senders
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints

# An id follows from part and query alone, so that a client's draws do not depend on which parts are attacked.
_IDS_PER_PART = 1_000_000_000


class FreshClients:
    """One fresh client for every attacked query; each repeat of the experiment is one round.

    In view `cohort` a round has as many clients as a cohort, and there are as many rounds as it takes until
    every query has been asked `repeats` times; some are asked more often, so that no round is smaller.

    Clients start at the trained global model, show the deterministic list (or a sampled one, if the protocol
    asks for it) and take one step. A client draws the same clicks and noise whatever other parts, methods or
    epsilons are run. With several groups of clients its group is drawn at random; it has the intent and
    documents of that group, but the click model of the attack. The server averages nothing: the aggregate of
    these rounds is the model itself.
    """

    def __init__(self, setup: Setup, protocol: AttackSpec) -> None:
        """Join the attacked parts; repeats run as `rounds` is iterated."""
        self.setup = setup
        self.protocol = protocol
        self.data = setup.collection.joined_parts(self.parts)

    @property
    def parts(self) -> list[str]:
        """Names of the attacked parts, in the order of the collection."""
        return [name for name in self.setup.collection.PARTS if name in self.protocol.on]

    @cached_property
    def origin(self) -> QueryOrigin:
        """Part and index of every query of the joined data."""
        collection = self.setup.collection
        sizes = {collection.PARTS.index(name): collection.part(name).n_queries for name in self.parts}
        part = np.concatenate([np.full(size, index) for index, size in sizes.items()])
        query = np.concatenate([np.arange(size) for size in sizes.values()])
        return QueryOrigin(part=part, query=query)

    @cached_property
    def queries(self) -> Ints:
        """Attacked queries (indices of the joined data): those with enough documents.

        Raises:
            DataError: there is none.
        """
        least = self.protocol.min_documents
        long = self._of_users_with_enough(np.flatnonzero(self.data.lengths >= least))
        if not long.size:
            raise DataError(
                f"--min-documents: no query of {', '.join(self.parts)} has {least} documents; "
                "expected a smaller number, or other parts"
            )
        if long.size < self.protocol.interactions:
            raise DataError(
                f"attack: {self.protocol.interactions} interactions a message, but only {long.size} queries "
                f"of {', '.join(self.parts)} to attack; expected as many at least"
            )
        return long

    def _of_users_with_enough(self, queries: Ints) -> Ints:
        """The queries of users that have as many as a message has interactions; all, where nobody's."""
        if self.data.users is None:
            return queries
        counts = np.bincount(self.data.users[queries], minlength=self.data.n_users)
        return queries[counts[self.data.users[queries]] >= self.protocol.interactions]

    @property
    def too_short(self) -> int:
        """Number of queries left out for having too few documents, or a user with too few of them."""
        return self.data.n_queries - self.queries.size

    @property
    def per_round(self) -> int:
        """Clients of a round."""
        return self.setup.spec.population.cohort_size if self.protocol.view == "cohort" else self.queries.size

    @property
    def n_rounds(self) -> int:
        return -(-self.protocol.repeats * self.queries.size // self.per_round)

    def _members(self, number: int) -> tuple[Ints, Ints]:
        """Place in `queries` of each client of a round, and how many clients asked the same in it before."""
        if self.protocol.view != "cohort":
            return np.arange(self.queries.size), np.zeros(self.queries.size, dtype=np.int64)
        numbers = np.arange(number * self.per_round, (number + 1) * self.per_round)
        before, places = np.divmod(numbers, self.queries.size)
        return places, before - before[0]

    def _asked(self, places: Ints, context: RoundContext) -> Ints:
        """Queries of each client, (C, B): its own, then other attacked ones, drawn without replacement.

        Of users' queries, the others are those of the same user.
        """
        if self.protocol.interactions == 1:
            return self.queries[places][:, np.newaxis]
        own = np.arange(self.queries.size)
        draws = context.streams("more-queries").uniform(own.size)
        draws[own, own] = -1.0  # its own comes first
        if self.data.users is not None:
            users = self.data.users[self.queries]
            draws += users[:, np.newaxis] != users  # those of other users come last, and there are enough
        places = np.argsort(draws, axis=1, kind="stable")[:, : self.protocol.interactions]
        return self.queries[places]

    def rounds(
        self,
        parameters: Floats,
        click_model: str,
        first: int = 0,
        last: GlobalModel | None = None,
        *,
        sums_only: bool = False,
    ) -> Iterator[RoundResult]:
        """Play rounds first .. N-1 against a trained global model (P,).

        With `sums_only` nobody looks at messages that the wire stage encodes.

        `last`, the server's state of a recorded run, is not needed: every round starts at the trained model.
        """
        traffic = self.setup.clients.traffic(self.data, self.origin, click_model, own_clicks=False)
        clientele = self.setup.served(traffic)
        world, population = clientele.world, self.setup.clients.population
        attacked = make_senders(
            self.setup, world, sampled=self.protocol.lists == "sampled", alone=self.protocol.view != "cohort"
        )
        state = None if self.setup.learner.sends == "models" else np.empty(0)
        after = GlobalModel(parameters, state)
        online = OnlineMetrics(
            world=world, population=population, no_relevant=self.setup.spec.train.online_no_relevant
        )
        for number in range(first, self.n_rounds):
            places, before = self._members(number)
            clients = self._clients(places, before, population.n_groups)
            # Streams of their own: no fresh client repeats the clicks or the noise of a training client.
            context = self.setup.context(
                number, clients, self.protocol.interactions, parameters, under="fresh/"
            )
            context = context.having(sums_only=sums_only)
            asked = clientele.assign(self._asked(places, context), context)
            sent = attacked.send(asked, context)
            yield RoundResult(
                context=context,
                sent=sent,
                after=after,
                metrics=online.compute(sent.interactions, asked, clients),
                asked=asked,
                world=world,
                embeds=self.setup.embeds_features,
            )

    def _clients(self, places: Ints, before: Ints, groups: int) -> Ints:
        """The clients of a round, each known by its query and how many asked the same in it before.

        With several groups the group of each is drawn at random.
        """
        part, query = self.origin.part[self.queries[places]], self.origin.query[self.queries[places]]
        clients = (before * len(self.setup.collection.PARTS) + part) * _IDS_PER_PART + query
        if groups == 1:
            return clients
        draws = self.setup.streams.clients("fresh/group", 0, clients).uniform(1)[:, 0]
        return clients * groups + np.floor(draws * groups).astype(np.int64)
