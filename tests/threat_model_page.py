"""Writes what attacks need into docs/threat-model.md: `python -m tests.threat_model_page`.

What stands above the heading of the table is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import names, plugin_class
from foltr_audit.core.records.view import KNOWLEDGE
from tests.fixtures.import_graph import ROOT

PAGE = ROOT / "docs" / "threat-model.md"
HEADING = "## What each attack must know"

GROUPS: dict[str, tuple[str, ...]] = {
    "documents": ("features", "query", "candidates"),
    "lists": ("shown", "order"),
    "learner and defense": (
        *("interactions", "lists", "learning_rate", "pairs", "normaliser", "rank_with"),
        *("clip", "sigma", "metric", "noise"),
    ),
    "users": ("relevance", "intents", "click_model"),
}
"""Pieces of knowledge by what they are about."""

SOUGHT = {
    "clicks": "clicks",
    "counts": "clicks on each document, in a sum",
    "query": "the query",
    "intent": "the intent",
    "client": "messages of one client",
    "participant": "each client's mean update",
}
MESSAGES = {"model": "updates", "update": "updates", "es": "`foltr-es`", "clicks": "plain clicks"}


def row(name: str) -> str:
    """What an attack looks for, what it reads, and what it must know."""
    attack = plugin_class(Attack, name)
    needs = {"click_model" if piece == "belief" else piece for piece in attack.needs}  # it follows from it
    sought = SOUGHT[str(getattr(attack.asks, "name", attack.asks))]
    reads = ", ".join(dict.fromkeys(MESSAGES[kind] for kind in MESSAGES if kind in attack.reads))
    seen = "message or sum" if "aggregate" in attack.observers else "message"
    known = [", ".join(f"`{piece}`" for piece in pieces if piece in needs) for pieces in GROUPS.values()]
    return f"| `{name}` | {sought} | {seen}: {reads} | {' | '.join(known)} |"


def table() -> Iterator[str]:
    yield HEADING
    yield ""
    yield "The least that each attack needs to know besides the message or the sum and the global model. Some"
    yield "do better if they know more: `map` uses the laws of noise and of randomised clicks, and the click"
    yield "model where it knows them."
    yield "The table is made of what the attacks declare (`needs`)."
    yield ""
    yield f"| attack | looks for | in each | {' | '.join(GROUPS)} |"
    yield f"|---|---|---|{'---|' * len(GROUPS)}"
    yield from map(row, sorted((n for n in names(Attack) if not plugin_class(Attack, n).baseline), key=_ease))


def _ease(name: str) -> tuple[int, str]:
    """The least demanding first."""
    return len(plugin_class(Attack, name).needs), name


def render() -> str:
    written = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    return "\n".join([written, "", *table()]) + "\n"


def missing() -> set[str]:
    """Pieces of knowledge that no group has."""
    return set(KNOWLEDGE) - {piece for pieces in GROUPS.values() for piece in pieces}


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
