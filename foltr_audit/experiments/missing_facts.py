"""How a user gives what the observer of a trace does not know."""

from __future__ import annotations

from collections.abc import Collection

from foltr_audit.core.plugins.attack import UNKNOWN
from foltr_audit.core.records.view import STEP_FACTS

_FACTS = {
    "interactions": "interactions=1",
    "lists": "lists=sampled",
    "learning_rate": "learning_rate=0.1",
    "pairs": "pairs=all",
    "normaliser": "normaliser=shown",
    "rank_with": "rank_with=local",
    "clip": "clip_norm=1.5",
    "sigma": "sigma=0.05",
    "metric": "metric=maxrr",
    "noise": "noise=none",
    "click_model": "click_model=NAME",
}
"""How the facts behind knowledge are given, by the name of the knowledge."""

_WITH_QUERY = ("shown", "order", "candidates", "relevance", "intents")
"""What is hidden with the query."""

_OF_DATA = ("candidates", "relevance", "intents")


def advise(reason: str, hidden: Collection[str]) -> str:
    """A reason why an attack cannot run, and how to give what it misses, unless that was hidden on purpose.

    >>> advise("the observer does not know: sigma", ())
    'the observer does not know: sigma (give --know sigma=0.05)'
    >>> advise("messages are masked", ())
    'messages are masked'
    """
    if not reason.startswith(UNKNOWN):
        return reason
    known = reason.removeprefix(UNKNOWN).partition(" (")[0]
    withheld = {*hidden, *(_WITH_QUERY if "query" in hidden else ())}
    missing = [name for name in known.split(", ") if name not in withheld]
    if "belief" in missing:  # a baseline: nothing that a user states would make it run
        return reason
    ways = []
    facts = [name for name in missing if name in _FACTS]
    if facts:
        ways.append("give " + " ".join(f"--know {_FACTS[name]}" for name in facts))
    if any(name in _OF_DATA for name in missing):
        ways.append("give its data set with --data")
    if any(name in ("features", "shown", "order", "query") for name in missing):
        ways.append("record the shown lists with the messages")
    if any(name in STEP_FACTS for name in facts):
        ways.append("for a learner other than PDGD give --client-step")
    return f"{reason} ({'; '.join(ways)})" if ways else reason
