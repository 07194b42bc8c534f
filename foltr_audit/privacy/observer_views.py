"""Observers and what they see, in the words that bounds, audits, attacks and tables share."""

from __future__ import annotations

from collections.abc import Iterable

WITH_LISTS = "+lists"
"""The end of the name of a view whose observer also sees the shown lists."""

_OBSERVERS = {
    "individual": ("message", "a server that sees each message"),
    "aggregate": ("sum", "a server that sees the sum over the clients of a round"),
    "colluding": ("all other clients", "a server that sees the sum, and colludes with other clients"),
}

SEES = {
    name: words
    for view, (sees, _) in _OBSERVERS.items()
    for name, words in ((view, sees), (view + WITH_LISTS, f"{sees} and lists"))
}
"""What the observer of each view sees, in the words of every table."""

VIEWS = {
    name: who
    for view, (_, server) in _OBSERVERS.items()
    for name, who in ((view, server), (view + WITH_LISTS, f"{server}, and the lists that clients were shown"))
}
"""Whose observations a claim, a bound or an audit is about."""

BY_SIGHT = tuple(
    view + lists for view in ("aggregate", "colluding", "individual") for lists in ("", WITH_LISTS)
)
"""The views, from the one whose observer sees least."""

WITHOUT_LISTS = tuple(_OBSERVERS)
"""The views whose observer sees no shown lists."""


def sees_lists(view: str) -> bool:
    """Whether the observer of a view also sees the shown lists."""
    return view.endswith(WITH_LISTS)


def without_lists(view: str) -> str:
    """The same view without the shown lists.

    >>> without_lists("aggregate+lists"), without_lists("aggregate")
    ('aggregate', 'aggregate')
    """
    return view.removesuffix(WITH_LISTS)


def attacked_view(view: str, hide: Iterable[str]) -> str:
    """The view of an attack's observer, who sees the lists unless they are hidden from it.

    Args:
        view: `individual`; `aggregate` or `pooled` for sums; `client` for global models, made of sums.
        hide: names of `records.view.KNOWLEDGE` that are withheld.

    >>> attacked_view("individual", ()), attacked_view("pooled", ["shown"])
    ('individual+lists', 'aggregate')
    """
    base = "individual" if view == "individual" else "aggregate"
    return base if {"shown", "query"} & set(hide) else base + WITH_LISTS


def attacker_sees(view: str, hide: Iterable[str]) -> str:
    """What the observer of an attack sees, in words; arguments as for `attacked_view`.

    >>> attacker_sees("individual", ()), attacker_sees("client", ())
    ('message and lists', 'global models and lists')
    """
    seen = sees(attacked_view(view, hide))
    return seen.replace("sum", "global models", 1) if view == "client" else seen


def attacker(view: str) -> str:
    """Who attacks in a view: a client, or the server."""
    return "client" if view == "client" else "server"


def sees(view: str, colluders: int | None = None) -> str:
    """What the observer of a view sees, in words; `colluders` of the other clients collude, None for all.

    >>> sees("individual+lists"), sees("colluding", 3)
    ('message and lists', '3 other clients')
    """
    words = SEES[view]
    return words if colluders is None else words.replace("all other", f"{colluders} other")


def with_article(sees: str) -> str:
    """The words of `sees` with their article, as a sentence needs them.

    >>> with_article("message and lists"), with_article("3 other clients and lists")
    ('the message and lists', 'the lists and the messages of 3 other clients')
    """
    if "other client" not in sees:
        return f"the {sees}"
    who, lists, _ = sees.partition(" and lists")
    return f"the {'lists and the ' if lists else ''}messages of {who}"
