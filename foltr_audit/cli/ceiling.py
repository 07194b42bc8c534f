"""`foltr-audit ceiling`: what an epsilon, or the proof of a chain, promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from foltr_audit.cli.common import changed_learner
from foltr_audit.cli.options import DEFENSE, Json, Table, option, refuse_given
from foltr_audit.cli.output import show
from foltr_audit.cli.pages import new_app, page
from foltr_audit.core.settings.defaults import LEARNER, UNIT, VIEW
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.report.documents import Row

_LADDER = (0.1, 0.2, 0.5, 1.0, 1.2, 2.0, 2.3, 3.0, 4.5, 7.0, 10.0)  # shown if nothing is given
_PRIOR = 0.1

app = new_app()


@app.command(cls=page("ceiling"))
def ceiling(
    eps: list[float] | None = option("Epsilon. May be repeated. Default: 11 of them from 0.1 to 10."),
    delta: float | None = option("Delta of --eps, --auc and --accuracy. Default: 0."),
    mu: list[float] | None = option("Mu of Gaussian differential privacy. May be repeated."),
    auc: list[float] | None = option("Show the largest epsilon that promises this AUC. May be repeated."),
    accuracy: list[float] | None = option(
        "Show the largest epsilon that promises this accuracy where a click is as likely as none. May be "
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

    of_chain: dict[str, Any] = {"unit": unit, "view": view, "rounds": rounds, "clients": clients}
    of_chain |= {"interactions": interactions, "rank_with": rank_with, "data": data}
    given = {name: value for name, value in of_chain.items() if value is not None}
    if not defense:
        refuse_given({name.replace("_", "-"): value for name, value in given.items()}, "only with --defense")
    if delta is not None and not (eps or auc or accuracy) and (mu or defense):
        raise UsageError("--delta: only with --eps, --auc or --accuracy")
    priors = prior or [_PRIOR]
    for probability in priors:
        _within("--prior", probability, 0.0 < probability < 1.0, "above 0, below 1")
    if not (eps or auc or accuracy or mu or defense):
        eps = [*_LADDER]
    rows = list(_of_numbers(eps or (), auc or (), accuracy or (), mu or (), delta or 0.0, priors))
    scope = None
    for text in defense or ():
        row, scope = _of_chain(text, priors, **given)
        rows.append(row)
    report = CeilingReport(scope=scope, results=tuple(rows))
    show(report.json, report.show, json=json)


def _within(name: str, value: float, right: bool, expected: str) -> None:
    if not right:
        raise UsageError(f"{name}: {value:g}; expected {expected}")


def _of_numbers(
    eps: Sequence[float],
    aucs: Sequence[float],
    accuracies: Sequence[float],
    mus: Sequence[float],
    delta: float,
    priors: list[float],
) -> Iterator[Row]:
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


def _of_chain(
    text: str,
    priors: list[float],
    *,
    unit: str = UNIT,
    view: str = VIEW,
    rounds: int = 1,
    clients: int | None = None,
    interactions: int = 1,
    rank_with: str | None = None,
    data: str | None = None,
) -> tuple[Row, Row]:
    """The row of a chain, and what its proof is for."""
    from foltr_audit.core.settings.experiment import Spec
    from foltr_audit.data.load import load_collection
    from foltr_audit.experiments.plan import with_users
    from foltr_audit.privacy.accounting import trade_off
    from foltr_audit.report.ceiling import ceiling_row, scope_row
    from foltr_audit.simulation.setup import Setup

    table: Table = {"defense": [text]}
    if data is not None:
        table["data"] = {"source": data}
    if clients is not None:
        table["population"] = {"clients": clients}
    if rank_with is not None:
        table["train"] = {"learner": changed_learner(LEARNER, {"rank_with": rank_with})}
    spec = Spec.parse(with_users(table), "ceiling")
    privacy = Setup(spec, load_collection(spec.data, spec.seed)).privacy
    situation = privacy.situation(view, unit, interactions=interactions, rounds=rounds)
    row = ceiling_row(text, trade_off(privacy.events(), situation), priors, defense=text)
    return row, scope_row(situation)
