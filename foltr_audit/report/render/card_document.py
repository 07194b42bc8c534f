"""Privacy cards as a document: the findings in a few sentences, then one page for each defense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foltr_audit.report.render.document import (
    Block,
    BulletList,
    CodeBlock,
    DocumentSection,
    Notice,
    Paragraph,
    ReportDocument,
    Subheading,
)
from foltr_audit.report.results.card_gaps import gaps
from foltr_audit.report.results.card_sentences import (
    attack_sentence,
    cost_sentence,
    false_sentences,
    limit_sentences,
    model_sentence,
    run_sentences,
)
from foltr_audit.report.results.privacy_card import PrivacyCard
from foltr_audit.report.results.provenance import Provenance
from foltr_audit.report.tables.privacy_card import (
    Fact,
    facts_table,
    guesses_table,
    observers_table,
    system_table,
)

_NDCG = (
    "nDCG@10 is the quality of the first ten results, from 0 (none is relevant) to 1 (no other order is "
    "better)."
)


def card_document(cards: Sequence[PrivacyCard], provenance: Provenance) -> ReportDocument:
    """The document of some cards; `provenance` says how their numbers are made again."""
    several = len(cards) > 1
    data = next((card.data.title for card in cards if card.data is not None), "no data yet")
    sections = [
        section for number, card in enumerate(cards) for section in _sections(card, number, several=several)
    ]
    return ReportDocument(
        title="Privacy cards" if several else f"Privacy card: {cards[0].name}",
        subtitle=f"Federated online learning to rank on {data}",
        sections=[
            *sections,
            DocumentSection("Versions, and how to repeat it", "repeat", list(_made(cards, provenance))),
        ],
        made_by=f"foltr-audit {provenance.versions['foltr-audit']}",
    )


def _sections(card: PrivacyCard, number: int, *, several: bool) -> Iterator[DocumentSection]:
    parts: dict[str, list[Block]] = {
        "In short": list(_short(card)),
        "The system": [system_table(card)],
        "Who sees what": [observers_table(card)],
        "What attacks found": [guesses_table(card)] if any(world.guesses for world in card.worlds) else [],
        "What it costs": [BulletList(list(map(cost_sentence, card.worlds))), Paragraph(_NDCG)],
        "What was not tested": [BulletList(gaps(card))],
    }
    if several:
        blocks = [block for title, found in parts.items() if found for block in (Subheading(title), *found)]
        yield DocumentSection(card.name, f"card-{number}", blocks)
        return
    for title, found in parts.items():
        yield DocumentSection(title, _ANCHORS.get(title, title.lower().replace(" ", "-")), found)


_ANCHORS = {"In short": "summary"}
"""Names for links that the style of pages knows."""


def _short(card: PrivacyCard) -> Iterator[Block]:
    for text in false_sentences(card):
        yield Notice(text)
    worst = max(card.worlds, key=lambda world: world.best_auc)
    yield BulletList(
        [*limit_sentences(card), *run_sentences(card), model_sentence(card), attack_sentence(worst)]
    )


def _made(cards: Sequence[PrivacyCard], provenance: Provenance) -> Iterator[Block]:
    yield facts_table("Versions and data", list(_versions(cards, provenance)))
    yield Paragraph(
        "Inside of the folder of the comparison. The same seed gives the same numbers. The first command "
        "runs everything again, the second one makes this card, and the others run one cell each:"
    )
    specs = {spec.hash[:12] for card in cards for spec in card.specs}
    first: dict[str, str] = {}
    for cell in provenance.cells:
        if any(name in cell.command for name in specs):
            first.setdefault(cell.kind, cell.command)
    yield CodeBlock("\n".join([provenance.command, _card_command(cards), *first.values()]))


def _card_command(cards: Sequence[PrivacyCard]) -> str:
    command = "foltr-audit report . --card"
    return f"{command} {cards[0].options}" if len(cards) == 1 else command


def _versions(cards: Sequence[PrivacyCard], provenance: Provenance) -> Iterator[Fact]:
    yield Fact("versions", ", ".join(f"{name} {version}" for name, version in provenance.versions.items()))
    for fold in next((card.data.folds for card in cards if card.data is not None), ()):
        yield Fact(f"fingerprint of the data, fold {fold.fold}", fold.fingerprint)
