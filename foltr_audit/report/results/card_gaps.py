"""What a privacy card does not cover, found from what was run."""

from __future__ import annotations

from collections.abc import Iterator

from foltr_audit.core.plugins import Attack, Learner
from foltr_audit.core.plugins.base import name_in
from foltr_audit.core.plugins.registry import loadable, make, plugin_class
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import SCENARIO
from foltr_audit.privacy.events import UNITS
from foltr_audit.privacy.observer_views import SEES, VIEWS, attacked_view, with_article
from foltr_audit.report.results.card_limits import ONE_OF
from foltr_audit.report.results.privacy_card import PrivacyCard
from foltr_audit.report.results.wording import counted, join_names

HONEST = "A server that breaks the protocol, e.g. one that sends some clients a model made to expose them."
"""What is not covered where the server is honest."""

ALWAYS = (
    "What else a server may know of a person, e.g. network addresses or the times of messages.",
    "Errors in rounding and in random number generators: proofs take noise for exact real numbers.",
)
"""What no report of this package covers."""


def gaps(card: PrivacyCard) -> list[str]:
    """What was not tested, in words: what this card lacks first, then what no card has."""
    return [
        *_unfinished(card),
        *_claims(card),
        *_attacks(card),
        *_clients(card),
        *_data(card),
        *_server(card),
        *ALWAYS,
    ]


def _server(card: PrivacyCard) -> Iterator[str]:
    servers = [spec.train.server for spec in card.specs if spec.train.server is not None]
    if servers:
        named = join_names(list(dict.fromkeys(servers)))
        yield f"A server that breaks the protocol in another way than {named}."
    else:
        yield HONEST


def _unfinished(card: PrivacyCard) -> Iterator[str]:
    if card.waiting:
        yield f"{counted(card.waiting, 'cell')} of the comparison not done yet."
    for why in card.failed:
        yield f"A cell that could not be run: {why}."


def _claims(card: PrivacyCard) -> Iterator[str]:
    if not card.claims:
        yield "The claim itself: no audit was run."
        return
    seen = {row.view for row in card.claims}
    views = [view for view in VIEWS if view not in seen]
    if views:
        unseen = join_names([with_article(SEES[view]) for view in views], "or")
        yield f"The claim where the server sees {unseen}."
    units = {row.unit for row in card.claims}
    missing = [ONE_OF[unit] for unit in UNITS if unit not in units]
    if missing:
        yield f"The claim about {join_names(missing, 'or')}."
    pairs = list(dict.fromkeys(row.canary for row in card.claims))
    yield f"Pairs of inputs other than the audited ones ({', '.join(pairs)}): another pair may leak more."
    unchecked = {row.declared_why: row for row in card.claims if row.declared == "not looked"}
    for why in unchecked:
        yield f"Whether each part of the defense does what it declares, on which proofs rely: {why}."


def _attacks(card: PrivacyCard) -> Iterator[str]:
    protocols = [spec.attack for spec in card.specs if spec.attack is not None]
    ran = {name_in(one.method) for world in card.worlds for one in world.guesses}
    for method, why in card.refused.items():
        yield f"The attack {method}, which could not run: {why}."
    if protocols and card.worlds and all(world.result.unread for world in card.worlds):
        yield "Attacks on what clients send: no round opens a sum that they could read."
        return
    if not ran or not protocols:
        yield "Attacks on what clients send: none was run."
        return
    refused = {name_in(method) for method in card.refused}
    others = [name for name in _attacks_on_clicks() if name not in ran | refused]
    if others:
        yield f"Other attacks on clicks that are installed here: {', '.join(others)}."
    yield from _observers(card, protocols)
    yield "Attacks that nobody has written yet; only a proof covers them."


def _attacks_on_clicks() -> list[str]:
    return [name for name in loadable(Attack) if plugin_class(Attack, name).asks == "clicks"]


def _observers(card: PrivacyCard, protocols: list[AttackSpec]) -> Iterator[str]:
    attacked = {attacked_view(one.view, one.hide) for one in protocols}
    ran = join_names([with_article(SEES[view]) for view in VIEWS if view in attacked])
    yield f"Attacks by anybody but a server that sees {ran}. The command membership attacks trained models."
    sent = {make(Learner, spec.train.learner).interactions for spec in card.specs}
    behind = {one.interactions for one in protocols if one.target == "fresh"}
    if behind and behind != sent:
        lists, usual = (join_names([str(each) for each in sorted(few)], "or") for few in (behind, sent))
        yield f"Attacks on messages about {usual} lists, as in training; here a message is about {lists}."


def _clients(card: PrivacyCard) -> Iterator[str]:
    scenarios = {spec.population.scenario for spec in card.specs}
    if scenarios == {SCENARIO}:
        yield "Clients that differ from each other: here all search and click alike."
    models = list(dict.fromkeys(spec.train.click_model for spec in card.specs))
    if models:
        yield f"Real people: clicks are simulated ({', '.join(models)})."


def _data(card: PrivacyCard) -> Iterator[str]:
    if card.data is not None:
        yield f"Other data: all numbers are of the {card.data.title}."
    runs = {world.result.setting.runs for world in card.worlds}
    if runs == {1}:
        yield "How another run would differ: there is one of each."
