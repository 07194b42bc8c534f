"""Several Specs that differ in a few fields, such as repetition, epsilon or click model.

As TOML a plan is a Spec of the fields that all share, with one `[[cells]]` table per Spec for the
rest. A plan of one Spec is that Spec's own TOML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import cast

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.base import with_default
from foltr_audit.core.settings.experiment import Spec, flat
from foltr_audit.core.settings.membership import CLIENTS, MembershipSpec
from foltr_audit.core.settings.unlearning import FEW_CLIENTS
from foltr_audit.data.search_log import number_of_clients
from foltr_audit.errors import UsageError, shorten_value
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import toml_table

Table = dict[str, JsonValue]
Point = Mapping[str, object]
"""Changes to a Spec's table by dotted name, e.g. `{"population.clients": 10}`."""


@dataclass(frozen=True)
class Plan:
    """Specs to run one after the other, in order; at least one."""

    specs: tuple[Spec, ...]

    @classmethod
    def of(
        cls,
        tables: Sequence[Mapping[str, object]],
        where: str = "spec",
        names: Mapping[str, str] | None = None,
    ) -> Plan:
        """The plan of plain tables, equal Specs once. `where` and `names` as for `Spec.parse`.

        Raises:
            UsageError: a table is no valid Spec.
        """
        return cls(tuple(dict.fromkeys(Spec.parse(table, where, names) for table in tables)))

    def table(self) -> Table:
        """What all Specs share, with one entry of `cells` per Spec for the rest."""
        tables = [spec.table() for spec in self.specs]
        if len(tables) == 1:
            return tables[0]
        first, *others = fields = [flat(table) for table in tables]
        shared = {
            name: value
            for name, value in first.items()
            if all(name in other and other[name] == value for other in others)
        }
        own = [{name: value for name, value in of.items() if name not in shared} for of in fields]
        return {**apply_changes({}, shared), "cells": [apply_changes({}, of) for of in own]}

    @property
    def public(self) -> Plan:
        """The same plan without local paths."""
        return Plan(tuple(spec.public for spec in self.specs))

    @property
    def toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.table())


def table_in(table: Mapping[str, object], name: str) -> Table:
    """The inner table of a name; an empty one where there is none."""
    return cast(Table, table.get(name, {}))


def read_tables(text: str, where: str) -> list[Table]:
    """The Spec tables of a TOML text, not yet validated: one, or one per entry of `cells`."""
    table = toml_table(text, where, UsageError)
    cells = table.pop("cells", [{}])
    tables = [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
    if not tables or tables != cells:
        raise UsageError(f"{where}: cells: expected [[cells]] tables")
    return [_merge(table, cell) for cell in tables]


def expand(tables: Sequence[Mapping[str, object]], *axes: Sequence[Point]) -> list[Table]:
    """Every table with every point of the first axis, each of those with every point of the next, ...

    >>> expand([{"seed": 1}], [{"data.fold": 1}, {"data.fold": 2}])
    [{'seed': 1, 'data': {'fold': 1}}, {'seed': 1, 'data': {'fold': 2}}]
    """
    found = [cast(Table, table) for table in tables]
    for axis in axes:
        found = [apply_changes(table, point) for table in found for point in axis]
    return found


def apply_changes(table: Mapping[str, object], point: Point) -> Table:
    """A copy of a table with the changes of a point."""
    new = deepcopy(cast(Table, table))
    for dotted, value in point.items():
        *path, last = dotted.split(".")
        place = new
        for name in path:
            inner = place.setdefault(name, {})
            if not isinstance(inner, dict):
                raise UsageError(
                    f"{name}={shorten_value(inner)}: expected a table, in which {dotted} is a field"
                )
            place = inner
        place[last] = cast(JsonValue, value)
    return new


def trained_on_each(table: Table) -> list[Table]:
    """A Spec's table for each attacked click model, by which users click in training too."""
    models = table_in(table, "attack").get("click_models", [*AttackSpec().click_models])
    return [
        apply_changes(table, {"train.click_model": name, "attack.click_models": [name]})
        for name in cast("list[str]", models)
    ]


def _merge(base: Table, over: Table) -> Table:
    new = deepcopy(base)
    for name, value in over.items():
        inner = new.get(name)
        if isinstance(value, dict) and isinstance(inner, dict):
            new[name] = _merge(inner, value)
        else:
            new[name] = value
    return new


def with_users(table: Table) -> Table:
    """The table of a Spec whose clients are the users of its data; as it is where queries are nobody's.

    All users of the training split take part; with the protocols of few clients, as many as usual if there
    are so many. Membership needs clients outside of a federation too: a quarter of the users are members at
    most, and where all others are fewer than usual, these are all.
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
