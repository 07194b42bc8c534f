"""The tables of a privacy card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.defaults import SCENARIO, SERVER, UNIT
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.privacy.observer_views import VIEWS, sees
from foltr_audit.report.results.attack_rows import AttackMetrics
from foltr_audit.report.results.card_limits import ONE_OF, ObserverLimit, observer_limits
from foltr_audit.report.results.card_sentences import observer_text
from foltr_audit.report.results.compare_rows import ClaimRow
from foltr_audit.report.results.privacy_card import CardAttack, PrivacyCard
from foltr_audit.report.results.wording import counted, join_names, whole_percent
from foltr_audit.report.tables.columns import eps_text
from foltr_audit.report.tables.compare_columns import NONE, claimed_cell, known_cell
from foltr_audit.report.tables.measured_bound import verdict_cell
from foltr_audit.report.tables.table import Cell, Column, Table, make_table
from foltr_audit.utils.rows import Estimate

_MESSAGES = {
    "model": "its whole model",
    "update": "the change of its model",
    "es": "a seed and how well it was served",
    "clicks": "its clicks",
}
"""What a client sends, by the kind of a message."""


class Fact(NamedTuple):
    """A line of a table of facts."""

    name: str
    text: str


def system_table(card: PrivacyCard) -> Table:
    """What the system is: who takes part, what is sent, and how often."""
    return facts_table("Clients, messages and rounds", list(_facts(card)))


def facts_table(title: str, facts: list[Fact]) -> Table:
    """Names and values."""
    return make_table(
        title,
        [
            Column[Fact]("property", lambda row: row.name, "words"),
            Column[Fact]("value", lambda row: row.text, "words"),
        ],
        facts,
    )


def _facts(card: PrivacyCard) -> Iterator[Fact]:
    yield Fact("defense", card.name)
    yield Fact("its parts, in order", card.defense)
    yield Fact("learner", card.learner)
    if card.data is not None:
        yield Fact("data", f"{card.data.title}, {card.data.features} features for each document")
    yield Fact("clients", _each(card, _clients))
    yield Fact("rounds", _each(card, lambda spec: str(spec.train.rounds)))
    yield Fact("what a client sends in a round", _each(card, _message))
    yield Fact("what the server gets", _each(card, _received))
    if any(spec.train.server is not None for spec in card.specs):
        yield Fact(
            "how the server breaks the protocol", _each(card, lambda spec: spec.train.server or SERVER)
        )
    yield Fact("how clients differ", _each(card, _differ))
    yield Fact("how users click", _each(card, lambda spec: spec.train.click_model))
    yield Fact("seed", _each(card, lambda spec: str(spec.seed)))
    runs = sorted({world.result.setting.runs for world in card.worlds})
    yield Fact("repetitions", " or ".join(map(str, runs)))
    hashes = [spec.hash[:12] for spec in card.specs]
    yield Fact("experiments (first digits of the SHA-256 of each Spec)", ", ".join(hashes))


def _each(card: PrivacyCard, text: Callable[[Spec], str]) -> str:
    found = list(dict.fromkeys(map(text, card.specs)))
    return join_names(found) if found else "not known"


def _clients(spec: Spec) -> str:
    clients, cohort = spec.population.clients, spec.population.cohort_size
    part = "all take part in each round" if cohort == clients else f"{cohort:,} take part in each round"
    return f"{clients:,}; {part}"


def _differ(spec: Spec) -> str:
    scenario = spec.population.scenario
    return f"not at all ({scenario})" if scenario == SCENARIO else scenario


def _message(spec: Spec) -> str:
    lists = make(Learner, spec.train.learner).interactions
    what = _MESSAGES.get(spec.message_kind, spec.message_kind)
    return f"{what}, after {counted(lists, 'list')} of results ({spec.trace.dtype} numbers)"


def _received(spec: Spec) -> str:
    wire = DefenseChain(parse_chain(spec.defense)).links("wire")
    if wire:
        return f"messages of which it can read the sum only ({', '.join(link.name for link in wire)})"
    return "each message by itself: nothing hides it from the server"


def observers_table(card: PrivacyCard) -> Table:
    """Who sees what, and what is claimed, proven and measured of each."""
    limits = observer_limits(card)
    known = {one.view for one in limits}
    others = [
        ObserverLimit(view=view, sees=sees(view), unit=UNIT, claim=None, most=None, proof="")
        for view in VIEWS
        if view not in known
    ]
    several = len({row.scenario for row in card.claims}) > 1
    return make_table(
        "Epsilon: claimed, proven and measured",
        [
            Column[ObserverLimit]("observer", lambda one: _observer(one, several=several), "words"),
            Column("protected", lambda one: ONE_OF[one.unit], "words"),
            _of_claim("claimed", lambda row: claimed_cell(row.eps_claimed, row.delta)),
            _of_claim("one round", lambda row: eps_text(row.eps_upper), "proven at most"),
            _of_claim("whole run", lambda row: Cell(eps_text(row.run.eps), row.run.who), "proven at most"),
            _of_claim("measured at least", _measured),
            Column("any attack, right in 100", lambda one: NONE if one.most is None else str(one.most)),
            Column("verdict", _verdict, "name"),
        ],
        [*limits, *others],
        caption="Epsilon 0 reveals nothing; at 1.2 an observation is at most 3.3 times as likely with one "
        "input as with another; ∞: no limit is proven. Claimed: by the authors of the defense. Measured: by "
        "trials, each at its own confidence. Any attack: by proof, the most that is guessed right of 100 "
        "secrets that are as likely as not; 50 need no message.",
    )


def _observer(one: ObserverLimit, *, several: bool) -> str:
    text = observer_text(one.view, one.sees)
    scenario = f" (scenario {one.claim.scenario})" if several and one.claim is not None else ""
    return f"{text[:1].upper()}{text[1:]}{scenario}"


def _of_claim(header: str, cell: Callable[[ClaimRow], Cell | str], group: str = "") -> Column[ObserverLimit]:
    return Column(header, lambda one: NONE if one.claim is None else cell(one.claim), group=group)


def _measured(row: ClaimRow) -> Cell:
    return Cell(eps_text(row.eps_lower), f"{whole_percent(row.confidence)} confidence")


def _verdict(one: ObserverLimit) -> Cell:
    if one.claim is None:
        return Cell("not checked", mark="dim")
    row = one.claim
    return verdict_cell(row.eps_claimed, row.verdict)


def guesses_table(card: PrivacyCard) -> Table:
    """Every attack that was run, and the guesses that need no message."""
    columns = [
        Column[CardAttack]("attack", _method, "name"),
        Column[CardAttack]("AUC", lambda one: known_cell(one.found.auc)),
        _share("clicks found", lambda found: found.recall),
        _share("right, of those it names", lambda found: found.precision),
        Column[CardAttack]("lists", lambda one: str(one.found.lists)),
    ]
    if len(card.worlds) > 1:
        columns.insert(0, Column[CardAttack]("world", lambda one: one.world, "words"))
    return make_table(
        "Attacks that were run",
        columns,
        [one for world in card.worlds for one in world.guesses if not one.method.startswith("random:")],
        caption="AUC: how often a clicked document gets a higher score than an unclicked one: .5 is a coin "
        "toss, 1 is always. Below or in brackets: 95 % intervals.",
    )


def _method(one: CardAttack) -> Cell:
    return Cell(one.method, "needs no message", "dim") if one.baseline else Cell(one.method)


def _share(header: str, number: Callable[[AttackMetrics], Estimate]) -> Column[CardAttack]:
    return Column(header, lambda one: known_cell(number(one.found)))
