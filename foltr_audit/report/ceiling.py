"""The document of `ceiling`: what a proof promises, in the words people decide by; one row for each proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from foltr_audit.privacy.accounting import AccountingContext
from foltr_audit.privacy.loss.composition import few_digits
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.privacy.tradeoff import TradeOff
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.table import Column, Table, bound_text, counted, make_table
from foltr_audit.report.terminal import print_lines, print_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console

RATES = {"tpr_at_01": 0.001, "tpr_at_1": 0.01, "tpr_at_10": 0.1}
"""The false positive rate of each true positive rate."""

SECRET = Section("prior:num success:num near:num")
"""How often a secret is named right: `prior` without the message, at most `success` with it.

`near` is the most for guesses that need only be near the secret, of which `prior` are right without the
message (Hayes, Mahloujifar & Balle 2023, theorem 2).
"""

CEILING = Section(
    "given eps:num|null delta:num|null mu:num|null defense:str|null odds:num|null auc:num accuracy:num "
    "tpr_at_01:num tpr_at_1:num tpr_at_10:num",
    nested("secrets", SECRET),
)
"""The most that any attack can reach, by one proof: of an `eps` at a `delta`, of `mu`, or of a `defense`.

`odds` is the factor by which a message changes the odds of a click at most, but for delta; `accuracy` the
share of right answers where a click is as likely as none.
"""

SCOPE = Section("unit view sees rounds:int clients:int interactions:int ranked_with parameters:int")
NO_ATTACK = (
    "No attack can do better, not even one that knows everything but the one thing that neighbouring "
    "inputs differ in: one click (unit click), the clicks on one list (interaction), or all that a "
    "person sends (client)."
)
EQUAL_PRIORS = (
    "AUC is of documents that are equally likely clicked. Where some are likelier clicked than "
    "others, an attack can have a higher one, since the priors alone tell documents apart."
)


def ceiling_row(given: str, curve: TradeOff, priors: Sequence[float], **proof: Any) -> Row:
    """The row of a trade-off curve; `given` in words, and `proof` in columns, is what it follows from."""
    eps = proof.get("eps")
    tpr = dict(zip(RATES, curve.power(list(RATES.values())).tolist(), strict=True))
    secrets = [
        SECRET.row({"prior": k, "success": float(curve.success(k)), "near": float(curve.power(k))})
        for k in priors
    ]
    return CEILING.of(
        curve,
        given=given,
        odds=None if eps is None else math.exp(eps) if eps < 700 else math.inf,
        accuracy=float(curve.accuracy()),
        secrets=secrets,
        **(dict.fromkeys(("eps", "delta", "mu", "defense")) | proof),
        **tpr,
    )


def scope_row(situation: AccountingContext) -> Row:
    members = situation.members
    return SCOPE.of(situation, sees=sees(situation.view), clients=1 if members is None else members.cohort)


@dataclass(frozen=True, kw_only=True)
class CeilingReport(Document):
    """The result of `ceiling`: a row for each proof, and what those of chains are for."""

    SCHEMA: ClassVar[str] = "foltr-audit/ceiling/1"
    FIELDS: ClassVar[Section] = Section(
        nested("scope", SCOPE, many=False, null=True), nested("results", CEILING)
    )

    scope: Row | None
    results: tuple[Row, ...]

    def show(self, console: Console) -> None:
        """Print the table, and what it holds for."""
        print_table(_table(self.results), console)
        console.print()
        lines = [NO_ATTACK, EQUAL_PRIORS]
        if any(row["delta"] for row in self.results):
            lines.append("With a probability of delta the odds may change by more.")
        if self.scope is not None:
            rounds = "one round" if self.scope["rounds"] == 1 else counted(self.scope["rounds"], "round")
            seen, unit = with_article(self.scope["sees"]), self.scope["unit"]
            proven = "1.000 where nothing is proven"
            lines.append(f"Chains: unit {unit}, {rounds}, the server sees {seen}; {proven}.")
        print_lines(lines, console)


def _table(rows: Sequence[Row]) -> Table:
    """The table of some rows; what was given has a column if it is not an epsilon."""
    priors = [secret["prior"] for secret in rows[0]["secrets"]]
    deltas = sorted({row["delta"] for row in rows if row["delta"]})
    of_deltas = f", epsilon at delta {', '.join(f'{delta:g}' for delta in deltas)}" if deltas else ""
    named = [Column("given", "given", "fold", narrow=lambda text: text.replace("+", "+\n"))]
    of_eps = [
        Column("epsilon", lambda row: _epsilon(row["eps"])),
        Column("odds", lambda row: _odds(row["odds"])),
    ]

    def share(header: str, name: str, digits: int = 3) -> Column:
        return Column(header, lambda row: _share(row[name], digits))

    def secret(number: int, prior: float) -> Column:
        return Column(f"secret {_plain(prior)}", lambda row: _share(row["secrets"][number]["success"]))

    return make_table(
        f"the most that any attack can reach{of_deltas}",
        [
            *named * any(row["given"] != f"eps {row['eps'] or 0.0:g}" for row in rows),
            *of_eps * any(row["eps"] is not None for row in rows),
            share("AUC", "auc"),
            share("accuracy", "accuracy"),
            share("TPR@.1%", "tpr_at_01", 4),
            share("TPR@1%", "tpr_at_1"),
            share("TPR@10%", "tpr_at_10"),
            *(secret(number, prior) for number, prior in enumerate(priors)),
        ],
        rows,
        caption="odds: the largest factor by which a message changes the odds of a click; accuracy: share "
        "of right answers where a click is as likely as none; TPR@1%: share of the clicks that "
        "are found if 1 % of the other documents are named too; secret: one that is guessed with probability "
        f"{' and '.join(map(_plain, priors))} without the message",
        spare=("TPR@.1%", "TPR@1%", "odds"),
        space=2,
    )


def _epsilon(eps: float | None) -> str:
    """An epsilon in four digits, rounded down: the rounded one promises no more.

    >>> _epsilon(math.log(1.5)), _epsilon(1.2), _epsilon(0.0)
    ('.4054', '1.2', '0')
    """
    if not eps or math.isinf(eps):
        return bound_text(eps)
    return _plain(few_digits(eps * (1 + 1e-12), math.floor, 4))


def _plain(value: float) -> str:
    return f"{value:g}".replace("0.", ".", 1) if 0 < value < 1 else f"{value:g}"


def _share(value: float, digits: int = 3) -> str:
    """A share; one that is less than 1 is not rounded to 1."""
    most = 1.0 - 10.0**-digits
    return f">{short(most, digits)}" if most + 0.5 * 10.0**-digits <= value < 1.0 else short(value, digits)


def _odds(odds: float | None) -> str:
    if odds is None or math.isinf(odds):
        return bound_text(odds)
    return f"{odds:.3g}" if odds < 1000 else f"{odds:,.0f}" if odds < 1e7 else f"{odds:.1e}"
