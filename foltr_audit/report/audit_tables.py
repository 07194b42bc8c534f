"""The audit as a rich table on a terminal, with the reason of every verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from foltr_audit.auditing.verdict import BROKEN
from foltr_audit.privacy.observer_views import with_article
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.wording import verdict_text
from foltr_audit.report.tables.attack import dataset_line
from foltr_audit.report.tables.layout import print_fitting, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {
    "refuted": "bold red",
    "false by exact loss": "bold red",
    BROKEN: "bold red",
    "contradiction": "bold red",
    "proven": "green",
}
_NUMBERS = {
    "claimed": "claimed",
    "upper": "proven",
    "exact": "exact",
    "lower": "measured",
    "ceiling": "ceiling",
}


def print_audit(report: AuditReport, console: Console) -> None:
    """The whole report: data, a table per chain, and why each verdict is what it is."""
    console.print(dataset_line(report.dataset, report.config, report.results))
    for chain in dict.fromkeys(row["defense"] for row in report.results):
        rows = [row for row in report.results if row["defense"] == chain]
        console.print()
        print_fitting(partial(_table, rows), _LESS, console)
        for row in rows:
            console.print()
            for line in _block(row, several=len({row["run"] for row in rows}) > 1):
                console.print(line, highlight=False)
        console.print()
        for line in conclusions(rows):
            console.print(escape(line), style="bold", highlight=False)


_LESS = ("ceiling", "exact", "claimed", "proven")
"""What the table does without on a narrow terminal, first to last."""


def _table(rows: Sequence[Row], narrow: bool) -> Table:
    first, runs = rows[0], {row["run"] for row in rows}
    delta = f", delta {first['delta']:g}" if first["delta"] else ""
    per = "one message" if first["messages"] == 1 else f"{first['messages']} messages of one client, pooled"
    behind = f"of {first['interactions']} interaction{'s' * (first['interactions'] > 1)}"
    found = table(
        escape(f"{first['defense']}\nepsilon of {per} {behind}{delta}"),
        "sees: what the server sees; proven: an upper bound; exact: the loss of the pair that was played; "
        f"measured: shown by {first['trials']} trials per hypothesis, each at "
        f"{100 * first['confidence']:g} % confidence, and ceiling: the most that so many can show",
        space=1 if narrow else 2,
    )
    found.add_column("sees", no_wrap=True)
    for heading in _NUMBERS.values():
        found.add_column(heading, justify="right", no_wrap=True)
    found.add_column("verdict", no_wrap=True)
    for row in rows:
        run = f"run {row['run']}\n" if len(runs) > 1 else ""
        audited = f"{run}{row['sees']}\n{row['unit']}\n{row['canary']}"
        style = _STYLES.get(row["verdict"], "")
        words = verdict_text(row)
        verdict = Text(words.replace("by ", "by\n") if narrow else words, style=style)
        found.add_row(audited, *(_cell(row, name) for name in _NUMBERS), verdict)
    return found


def _cell(row: Row, name: str) -> str:
    """An epsilon of a row; one that is not bounded, or not claimed, is none at all."""
    value = row[f"eps_{name}"]
    if name in ("claimed", "upper") and math.isinf(value):
        return "none"
    return _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    usual = value == 0 or 0.005 <= value < 1e5
    return "inf" if math.isinf(value) else f"{value:.2f}" if usual else f"{value:.3g}"


def _block(row: Row, *, several: bool) -> Iterator[str]:
    """One audited row in words: verdict and reason, pair, proof, and what told the inputs apart."""
    run = f"run {row['run']}, " if several else ""
    style = _STYLES.get(row["verdict"], "bold")
    yield (
        f"{run}{row['sees']}, one {row['unit']} differs, {row['canary']}: "
        f"[{style}]{verdict_text(row)}[/]: {escape(row['why'])}"
    )
    yield escape(f"  pair: {row['pair']}; {_model(row)}")
    whole = f"; over all {row['rounds']} rounds of the run {_cell(row, 'upper_run')}"
    proven = f"{_cell(row, 'upper')}: {row['upper_how']}{whole if math.isfinite(row['eps_upper']) else ''}"
    yield escape(f"  proven {proven}")
    if row["declared"] == "not looked":
        yield escape(f"  not checked whether links do what they declare: {row['declared_why']}")
    assumed = f", which assumes {row['assumes']}" if row["assumes"] else ""
    yield escape(f"  measured {_number(row['eps_lower'])}: score {row['score']}, {row['estimator']}{assumed}")


def _model(row: Row) -> str:
    """At which global models a pair was played."""
    if row["model"] == "rounds":
        return "at a global model of another round each"
    return f"at the {row['model']} model"


def conclusions(results: Sequence[Row]) -> list[str]:
    """What all rows of one chain say together: one sentence per kind of verdict."""
    said = [f"Not proven where the server sees {_place(row)}: {row['why']}." for row in _of(results, BROKEN)]
    false: dict[str, list[Row]] = {}
    for row in _of(results, "refuted", "false by exact loss"):
        false.setdefault(f"The claim of {row['eps_claimed']:g} is false: {_shown(row)}", []).append(row)
    said += [f"{text} where the server sees {_places(rows)}." for text, rows in false.items()]
    kinds = {
        "Proven": _of(results, "proven"),
        "Neither proven nor refuted": [row for row in _of(results, "not refuted") if _claims(row)],
    }
    said += [f"{text} where the server sees {_places(rows)}." for text, rows in kinds.items() if rows]
    nothing = [row for row in _of(results, "not refuted") if not _claims(row)]
    if nothing:
        said.append(
            f"Nothing is claimed where the server sees {_places(nothing)}; --claim E (and --delta D) states "
            "a claim to check."
        )
    return list(dict.fromkeys(said))


def _of(results: Sequence[Row], *verdicts: str) -> list[Row]:
    return [row for row in results if row["verdict"] in verdicts]


def _shown(row: Row) -> str:
    """How much more than its claim a row gives away."""
    worst = max(row["eps_lower"] if row["verdict"] == "refuted" else 0.0, row["eps_exact"] or 0.0)
    return "no finite epsilon holds" if math.isinf(worst) else f"at least {worst:.3g} is lost"


def _claims(row: Row) -> bool:
    return not math.isinf(row["eps_claimed"])


def _places(rows: Sequence[Row]) -> str:
    return "; ".join(dict.fromkeys(map(_place, rows)))


def _place(row: Row) -> str:
    return f"{with_article(row['sees'])}, for one {row['unit']}"
