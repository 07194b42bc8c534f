"""`foltr-audit ceiling`: what an epsilon, or the proof of a chain, promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foltr_audit.cli.common import changed_learner
from foltr_audit.cli.options import DEFENSE, Json, Table, option
from foltr_audit.cli.output import show
from foltr_audit.cli.pages import new_app, page
from foltr_audit.core.settings.defaults import LEARNER, UNIT, VIEW
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.report.documents import Row
    from foltr_audit.simulation.privacy_description import PrivacyDescription

_LADDER = (0.1, 0.2, 0.5, 1.0, 1.2, 2.0, 2.3, 3.0, 4.5, 7.0, 10.0)
"""Epsilons that are shown if nothing is given."""

_PRIOR = 0.1


app = new_app()
EXAMPLES = {
    "What epsilon 1.2 promises": "foltr-audit ceiling --eps 1.2",
    "Which epsilon keeps every attack at an AUC of 0.6": "foltr-audit ceiling --auc 0.6",
    "What is proven of a defense": "foltr-audit ceiling --defense click-rr:eps=1",
}


@app.command(cls=page(examples=EXAMPLES))
def ceiling(
    eps: list[float] | None = option("Epsilon. May be repeated. Default: 11 of them from 0.1 to 10."),
    delta: float | None = option("Delta of --eps, --auc and --accuracy. Default: 0."),
    mu: list[float] | None = option("Mu of Gaussian differential privacy. May be repeated."),
    auc: list[float] | None = option("Show the largest epsilon that promises this AUC. May be repeated."),
    accuracy: list[float] | None = option(
        "Show the largest epsilon that promises this accuracy of a click that is as likely as not. May be "
        "repeated."
    ),
    prior: list[float] | None = option(
        "Probability to guess a secret right without the message. May be repeated. Default: 0.1, one of ten."
    ),
    defense: list[str] | None = option(
        "Show what is proven for a chain of defenses joined by +. May be repeated.", panel=DEFENSE
    ),
    unit: str | None = option(
        f"What neighbouring inputs differ in: click, interaction, query or client. Default: {UNIT}.",
        panel=DEFENSE,
    ),
    view: str | None = option(
        f"What the server sees: individual, aggregate or colluding, each also with +lists. Default: {VIEW}.",
        panel=DEFENSE,
    ),
    rounds: int | None = option("Number of rounds that are seen. Default: 1.", panel=DEFENSE),
    clients: int | None = option("Number n of clients in a round. Default: 1000.", panel=DEFENSE),
    interactions: int | None = option("Interactions of a client in a round. Default: 1.", panel=DEFENSE),
    rank_with: str | None = option(
        "Model that ranks a client's lists: local or global. Default: local.", panel=DEFENSE
    ),
    data: str | None = option("Data of the linear ranker. Default: synthetic:mq2007.", panel=DEFENSE),
    json: Json = False,
) -> None:
    """Show the most that any attack can reach where an epsilon is proven: AUC, accuracy, secrets.

    With --auc or --accuracy, the other direction: the largest epsilon that promises no more.
    """
    from foltr_audit.report.ceiling import CeilingReport

    chains = _Chains(unit, view, rounds, clients, interactions, rank_with, data)
    if not defense and (given := chains.given) is not None:
        raise UsageError(f"{given}: only with --defense")
    if delta is not None and not (eps or auc or accuracy) and (mu or defense):
        raise UsageError("--delta: only with --eps, --auc or --accuracy")
    priors = prior or [_PRIOR]
    for probability in priors:
        _within("--prior", probability, 0.0 < probability < 1.0, "above 0, below 1")
    rows = list(_of_numbers(eps or (), auc or (), accuracy or (), mu or (), delta or 0.0, priors))
    if not rows and not defense:
        rows = list(_of_numbers(_LADDER, (), (), (), delta or 0.0, priors))
    scope = None
    for text in defense or ():
        row, scope = chains.row(text, priors)
        rows.append(row)
    report = CeilingReport(scope=scope, results=tuple(rows))
    show(report.json, report.show, json=json)


def _within(name: str, value: float, right: bool, expected: str) -> None:
    if not right:
        raise UsageError(f"{name}: {value:g}; expected {expected}")


def _of_numbers(
    eps: list[float] | tuple[float, ...],
    aucs: list[float] | tuple[float, ...],
    accuracies: list[float] | tuple[float, ...],
    mus: list[float] | tuple[float, ...],
    delta: float,
    priors: list[float],
) -> Iterator[Row]:
    """The rows of numbers, in the order of the options."""
    from foltr_audit.privacy.tradeoff import TradeOff, epsilon_of_accuracy, epsilon_of_auc
    from foltr_audit.report.ceiling import ceiling_row

    _within("--delta", delta, 0 <= delta < 1, "at least 0, below 1")
    for value in eps:
        _within("--eps", value, value >= 0, "at least 0")
    sources = [(f"eps {value:g}", value) for value in eps]
    sources += [(f"AUC {value:g}", epsilon_of_auc(value, delta)) for value in aucs]
    sources += [(f"accuracy {value:g}", epsilon_of_accuracy(value, delta)) for value in accuracies]
    for given, value in sources:
        yield ceiling_row(given, TradeOff.of_epsilon(value, delta), priors, eps=value, delta=delta)
    for value in mus:
        yield ceiling_row(f"mu {value:g}", TradeOff.of_mu(value), priors, mu=value)


@dataclass(frozen=True)
class _Chains:
    """The options that say what the proofs of chains are for; None where one was not given."""

    unit: str | None
    view: str | None
    rounds: int | None
    clients: int | None
    interactions: int | None
    rank_with: str | None
    data: str | None

    @property
    def given(self) -> str | None:
        """The first option that was given; None if none was."""
        names = (name for name, value in vars(self).items() if value is not None)
        return next((f"--{name.replace('_', '-')}" for name in names), None)

    def row(self, text: str, priors: list[float]) -> tuple[Row, Row]:
        """The row of a chain, and what its proof is for.

        Raises:
            UsageError: a value that the experiment refuses, or data that cannot be read.
        """
        from foltr_audit.privacy.accounting import trade_off
        from foltr_audit.report.ceiling import ceiling_row, scope_row

        privacy = self._privacy(text)
        situation = privacy.situation(
            self.view or VIEW,
            self.unit or UNIT,
            interactions=1 if self.interactions is None else self.interactions,
            rounds=1 if self.rounds is None else self.rounds,
        )
        row = ceiling_row(text, trade_off(privacy.events(), situation), priors, defense=text)
        return row, scope_row(situation)

    def _privacy(self, text: str) -> PrivacyDescription:
        """What the chain does to the messages of an experiment."""
        from foltr_audit.core.settings.experiment import Spec
        from foltr_audit.data.load import load_collection
        from foltr_audit.experiments.plan import with_users
        from foltr_audit.simulation.setup import Setup

        table: Table = {"defense": [text]}
        if self.data is not None:
            table["data"] = {"source": self.data}
        if self.clients is not None:
            table["population"] = {"clients": self.clients}
        if self.rank_with is not None:
            table["train"] = {"learner": changed_learner(LEARNER, {"rank_with": self.rank_with})}
        spec = Spec.parse(with_users(table), "ceiling")
        return Setup(spec, load_collection(spec.data, spec.seed)).privacy
