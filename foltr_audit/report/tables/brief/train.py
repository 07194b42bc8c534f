"""The short answer of `train`: how good the trained rankers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.base import UtilityRow
from foltr_audit.report.results.settings import setting_label
from foltr_audit.report.results.train import TrainReport
from foltr_audit.report.tables.brief.short_answer import BriefAnswer, first_rows
from foltr_audit.report.tables.columns import dataset_line, systems_of
from foltr_audit.report.tables.train import utility_table_of
from foltr_audit.report.tables.worlds import twins_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console


def print_brief_train(report: TrainReport, console: Console, *, quiet: bool = False) -> None:
    """Print the short answer, and the comparison with twins if some were trained."""
    brief_train(report).print(console, quiet=quiet)
    if report.twins and not quiet:
        print_table(twins_table(report.twins), console)


def brief_train(report: TrainReport) -> BriefAnswer:
    """The short answer."""
    rows, more = first_rows(report.utility, "rows")
    tables = {
        "the metrics of each round": bool(report.rounds),
        "the periods of each intent": bool(report.periods),
        "groups of clients": bool(report.utility_groups or report.population),
    }
    return BriefAnswer(
        conclusion=(_conclusion(report),),
        about=dataset_line(report.dataset, report.config, systems_of(report.utility)),
        table=utility_table_of(report, rows),
        left_out=(*more, *(name for name, there in tables.items() if there)),
    )


def _conclusion(report: TrainReport) -> str:
    rows = report.utility
    rounds = len({row.round for row in report.rounds})
    known = [row for row in rows if row.ndcg == row.ndcg]
    if not known:
        return "No model could be evaluated: no query has a relevant document."
    best = max(known, key=lambda row: row.ndcg)
    name = f"{setting_label(best.setting, [row.setting for row in rows])}: " if len(rows) > 1 else ""
    of = f"The best of {len(rows)} rankers, {name.removesuffix(': ')}, has" if name else "The ranker has"
    return f"{of} an nDCG@10 of {short(best.ndcg)} {_after(rounds)}{_beside(best)}."


def _after(rounds: int) -> str:
    return f"after {rounds} round{'s' * (rounds != 1)}"


def _beside(row: UtilityRow) -> str:
    """What the untrained model and the ideal ranking have, on which queries."""
    parts = [f"untrained {short(row.untrained)}"] if row.untrained is not None else []
    parts += [f"ideal {short(row.ceiling)}"] if row.ceiling is not None else []
    return f" on {row.evaluated_on} ({', '.join(parts)})" if parts else f" on {row.evaluated_on}"
