"""How many clients a Spec has where its data are those of real users, unless its table says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from foltr_audit.core.settings.membership import CLIENTS, MembershipSpec
from foltr_audit.core.settings.plain_table import with_default
from foltr_audit.core.settings.unlearning import FEW_CLIENTS
from foltr_audit.data.search_log.collection import number_of_clients
from foltr_audit.experiments.plan import Table


def with_users(table: Table) -> Table:
    """The table of a Spec whose clients are the users of its data; as it is where queries are nobody's.

    All users of the training split take part; with the protocols of few clients, as many as usual if there
    are so many. Membership needs clients outside of a federation too: a quarter of the users are members at
    most, and where all others are fewer than usual, these are all.

    Raises:
        DataError: the data are a search log that is malformed.
    """
    source = _inner(table, "data").get("source")
    users = number_of_clients(source) if isinstance(source, str) else None
    if users is None:
        return table
    clients = users
    if table.get("unlearning") is not None:
        clients = min(users, FEW_CLIENTS)
    if table.get("membership") is not None:
        clients = min(CLIENTS, max(1, users // 4))
        given = _inner(table, "population").get("clients")
        size = given if isinstance(given, int) and given > 0 else clients
        outside = max(1, users // size - 2) * size
        usual = int(MembershipSpec.model_fields["others"].default)
        table = cast(Table, with_default(table, "membership", "others", min(usual, outside)))
    return cast(Table, with_default(table, "population", "clients", clients))


def _inner(table: Table, name: str) -> Mapping[str, object]:
    """An inner table; an empty one where there is none, or something else, which is refused later."""
    inner = table.get(name)
    return inner if isinstance(inner, Mapping) else {}
