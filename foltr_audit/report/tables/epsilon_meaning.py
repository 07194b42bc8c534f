"""The report of `ceiling`: what a proof promises, in the words people decide by; one row for each proof."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.privacy.observer_views import with_article
from foltr_audit.privacy.tradeoff import TradeOff
from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import short
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from rich.console import Console

RATES = (0.001, 0.01, 0.1)
"""False positive rates at which true positive rates are shown."""


@dataclass(frozen=True, kw_only=True)
class SecretRow(ResultRow):
    """How often a secret is named right: `prior` without the message, at most `success` with it.

    `near` is the most for guesses that need only be near the secret, of which `prior` are right without the
    message (Hayes, Mahloujifar & Balle 2023, theorem 2).
    """

    prior: float
    success: float
    near: float


@dataclass(frozen=True, kw_only=True)
class CeilingRow(ResultRow):
    """What one proof promises: the most that any attack can reach.

    Attributes:
        given: what was asked for, in words.
        eps, delta: the epsilon, and its delta; None of a chain and of mu.
        mu: of Gaussian DP; None of others.
        defense: the chain whose proof it is; None of others.
        odds: the factor by which a message changes the odds of a click at most, but for delta; None where the
            proof bounds none.
        auc: AUC of telling two neighbouring inputs apart.
        accuracy: the share of clicks that are guessed right, of those that are as likely as not.
        tpr_at_01, tpr_at_1, tpr_at_10: true positive rates at a false positive rate of .1, 1 and 10 %.
        secrets: a row for each prior.
    """

    given: str
    eps: float | None = None
    delta: float | None = None
    mu: float | None = None
    defense: str | None = None
    odds: float | None
    auc: float
    accuracy: float
    tpr_at_01: float
    tpr_at_1: float
    tpr_at_10: float
    secrets: tuple[SecretRow, ...]

    @classmethod
    def of(
        cls,
        given: str,
        curve: TradeOff,
        priors: Sequence[float],
        *,
        eps: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        defense: str | None = None,
    ) -> CeilingRow:
        """The row of a trade-off curve, and of what it follows from."""
        low, middle, high = curve.power(RATES).tolist()
        return cls(
            given=given,
            eps=eps,
            delta=delta,
            mu=mu,
            defense=defense,
            odds=None if eps is None else _exponential(eps),
            auc=curve.auc,
            accuracy=float(curve.accuracy()),
            tpr_at_01=low,
            tpr_at_1=middle,
            tpr_at_10=high,
            secrets=tuple(
                SecretRow(prior=k, success=float(curve.success(k)), near=float(curve.power(k)))
                for k in priors
            ),
        )


@dataclass(frozen=True, kw_only=True)
class ProofScope(ResultRow):
    """What the proofs of chains are for, as `AccountingContext`."""

    unit: str
    view: str
    sees: str
    rounds: int
    clients: int
    interactions: int
    ranked_with: str
    parameters: int


@dataclass(frozen=True, kw_only=True)
class CeilingReport(PlainReport):
    """The report of `ceiling`.

    Attributes:
        scope: what the proofs of chains are for; left out without a chain.
        results: one row for each proof.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/ceiling/1"

    scope: ProofScope | None
    results: tuple[CeilingRow, ...]

    def print(self, console: Console) -> None:
        """The table, and what it holds for."""
        print_table(ceiling_table(self.results), console)
        console.print()
        for line in self._lines():
            console.print(escape(line), highlight=False)

    def _lines(self) -> Iterator[str]:
        yield (
            "No attack can do better, not even one that knows everything but the one thing that neighbouring "
            "inputs differ in: one click (unit click), the clicks on one list (interaction), or all that a "
            "person sends (client)."
        )
        yield (
            "AUC is of documents that are equally likely clicked. Where some are likelier clicked than "
            "others, an attack can have a higher one, since the priors alone tell documents apart."
        )
        if any(row.delta for row in self.results):
            yield "With a probability of delta the odds may change by more."
        if self.scope is not None:
            rounds = f"{self.scope.rounds} rounds" if self.scope.rounds > 1 else "one round"
            seen = with_article(self.scope.sees)
            yield (
                f"Chains: unit {self.scope.unit}, {rounds}, the server sees {seen}; 1.000 where nothing is "
                "proven."
            )


def ceiling_table(rows: Sequence[CeilingRow]) -> Table:
    """The table of some rows; what was given has a column if it is not an epsilon."""
    columns: list[Column[CeilingRow]] = []
    if any(row.given != f"eps {row.eps:g}" for row in rows if row.eps is not None) or _mixed(rows):
        columns.append(
            Column("given", lambda row: row.given, "fold", narrow=lambda text: text.replace("+", "+\n"))
        )
    if any(row.eps is not None for row in rows):
        columns.append(Column("epsilon", lambda row: "-" if row.eps is None else floored(row.eps)))
        columns.append(Column("odds", lambda row: _factor(row.odds)))
    columns += [
        Column("AUC", lambda row: _share(row.auc)),
        Column("accuracy", lambda row: _share(row.accuracy)),
        Column("TPR@.1%", lambda row: _share(row.tpr_at_01, 4)),
        Column("TPR@1%", lambda row: _share(row.tpr_at_1)),
        Column("TPR@10%", lambda row: _share(row.tpr_at_10)),
    ]
    columns += [_secret(place, secret.prior) for place, secret in enumerate(rows[0].secrets)]
    shown = " and ".join(_plain(secret.prior) for secret in rows[0].secrets)
    deltas = sorted({row.delta for row in rows if row.delta})
    return make_table(
        "the most that any attack can reach"
        + (f", epsilon at delta {', '.join(f'{delta:g}' for delta in deltas)}" if deltas else ""),
        columns,
        rows,
        caption="odds: the largest factor by which a message changes the odds of a click; accuracy: of a "
        "click that is as likely as not; TPR@1%: share of the clicks that are found if 1 % of the other "
        f"documents are named too; secret: one that is guessed with probability {shown} without the message",
        spare=("TPR@.1%", "TPR@1%", "odds"),
        space=2,
    )


def _mixed(rows: Sequence[CeilingRow]) -> bool:
    return any(row.eps is None for row in rows)


def _secret(place: int, prior: float) -> Column[CeilingRow]:
    return Column(f"secret {_plain(prior)}", lambda row: _share(row.secrets[place].success))


def floored(eps: float) -> str:
    """An epsilon in four digits, rounded down: the rounded one promises no more.

    >>> floored(math.log(1.5)), floored(1.2), floored(0.0)
    ('.4054', '1.2', '0')
    """
    if eps == 0 or math.isinf(eps):
        return f"{eps:g}"
    unit = 10.0 ** (3 - math.floor(math.log10(eps)))
    return _plain(math.floor(eps * unit * (1 + 1e-12)) / unit)


def _plain(value: float) -> str:
    return f"{value:g}".replace("0.", ".", 1) if 0 < value < 1 else f"{value:g}"


def _share(value: float, digits: int = 3) -> str:
    """A share; one that is less than 1 is not rounded to 1."""
    most = 1.0 - 10.0**-digits
    return f">{short(most, digits)}" if most + 0.5 * 10.0**-digits <= value < 1.0 else short(value, digits)


def _factor(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e7 else f"{value:.1e}"


def _exponential(eps: float) -> float:
    return math.exp(eps) if eps < 700 else math.inf
