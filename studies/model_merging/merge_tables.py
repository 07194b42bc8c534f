"""Prints a study of model merging on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from foltr_audit.report.tables.layout import Column, percent, rows_table, short_column, table, text_column
from foltr_audit.studies.model_merging import published
from foltr_audit.studies.model_merging.local_baselines import MERGED
from foltr_audit.studies.model_merging.quality import METRICS, NDCG
from foltr_audit.studies.model_merging.study import MergeReport, Row
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_METHODS = {"linear": "linear combination", "stacking": "stacking"}


def print_merging(study: MergeReport, console: Console) -> None:
    """Print every table of a study, with published figures in brackets, and its verdicts."""
    console.print(_header(study), highlight=False)
    console.print(_mixture_line(study), highlight=False)
    console.print()
    tables = [_statistics_table(study.statistics), *_local_tables(study.local)]
    tables += [_merged_table(study.merged, method) for method in MERGED]
    tables += [_weight_table(study.weights), _parameter_table(study.hyperparameters)]
    for one in tables:
        console.print(one)
        console.print()
    for line in (*_verdicts(study.verdicts), *_CAPTION):
        console.print(escape(line), highlight=False)


_CAPTION = (
    f"In brackets: figures published on {published.DATA} ({published.SOURCE}), which may be other data.",
    "a, b: different from M_1, M_2 by a paired t-test over test queries, p < .05 after Bonferroni's "
    "correction for 4 tests.",
    "Queries without relevant documents belong to no client; in DS they count as 0.",
)


def _header(study: MergeReport) -> str:
    data = study.dataset
    kind = "synthetic data" if data["synthetic"] else "data"
    return escape(
        f"{kind} {data['source']}, {data['features']} features, category in feature "
        f"{data['category_feature']}; first and second category: {', '.join(map(str, study.categories))}"
    )


def _mixture_line(study: MergeReport) -> str:
    row = study.mixtures[0]
    return (
        f"training queries: {percent(row['exclusive'])} of one category only, {percent(row['tie'])} tied; "
        f"the largest category leads by 1 to 3 in {percent(row['lead_1_to_3'])}, by more in "
        f"{percent(row['lead_over_3'])}"
    )


def _statistics_table(rows: Sequence[Row]) -> Table:
    found = table(
        "splits", "queries / relevant documents / pairs; remain: queries with relevant documents in neither"
    )
    for heading in ("part", "category", "DS_1 by"):
        found.add_column(heading, no_wrap=True)
    for heading in ("DS_1", "DS'_2", "remain"):
        found.add_column(heading, justify="right", no_wrap=True)
    for part in dict.fromkeys(row["part"] for row in rows):
        mine = [row for row in rows if row["part"] == part]
        found.add_row(part, "", "all: DS", _sizes(mine[0]), "", "")
        for category, method in dict.fromkeys((row["category"], row["method"]) for row in mine[1:]):
            groups = {
                row["group"]: row for row in mine if (row["category"], row["method"]) == (category, method)
            }
            sizes = (_sizes(groups[name]) for name in ("DS_1", "DS'_2"))
            found.add_row("", str(category), method, *sizes, f"{groups['remaining']['queries']:,}")
        found.add_section()
    return found


def _sizes(row: Row) -> str:
    return f"{row['queries']:,} / {row['relevant_documents']:,} / {row['pairs']:,}"


def _local_tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for initial in (True, False):
        mine = [row for row in rows if (row["split"] == 0) == initial]
        if mine:
            found.append(_local_table(mine, "DS_2" if initial else "DS'_2"))
    return found


def _local_table(rows: Sequence[Row], second: str) -> Table:
    found = table(f"{METRICS[NDCG]} of local models on test queries", "in brackets: published")
    for heading in ("split", "category", "DS_1 by", "model"):
        found.add_column(heading, no_wrap=True)
    for heading in ("DS_1", second, "DS"):
        found.add_column(heading, justify="right", no_wrap=True)
    for split in dict.fromkeys(row["split"] for row in rows):
        mine = [row for row in rows if row["split"] == split]
        for number, model in enumerate(published.MODELS):
            cells = {row["on"]: row for row in mine if row["model"] == model}
            first = mine[0]
            names = [str(split or "-"), str(first["category"]), first["method"]] if number == 0 else [""] * 3
            found.add_row(
                *names, model, *(_with_published(row[NDCG], row["published"]) for row in cells.values())
            )
        found.add_section()
    return found


def _with_published(value: float, paper: float, marks: str = "") -> str:
    return f"{short(value)}{marks:<2} ({short(paper)})"


def _merged_table(rows: Sequence[Row], method: str) -> Table:
    found = table(f"{_METHODS[method]}: the whole test part", "in brackets: published")
    found.add_column("split", no_wrap=True)
    found.add_column("model", no_wrap=True)
    for label in METRICS.values():
        found.add_column(label, justify="right", no_wrap=True)
    shown = ("M_1", "M_2", *MERGED[method])
    for split in dict.fromkeys(row["split"] for row in rows):
        for number, model in enumerate(shown):
            mine = [row for row in rows if (row["split"], row["model"]) == (split, model)]
            cells = (_with_published(row["value"], row["published"], row["marks"]) for row in mine)
            letter = {"M_1": " (a)", "M_2": " (b)"}.get(model, "")
            found.add_row(str(split) if number == 0 else "", f"{model}{letter}", *cells)
        found.add_section()
    return found


def _weight_table(rows: Sequence[Row]) -> Table:
    columns = [
        text_column("split", "split", "number"),
        text_column("client", "client", "number"),
        text_column("queries of D_merge", "queries", "number"),
        Column("alpha", lambda row: f"{row['alpha']:.2f} ({row['published_alpha']:.2f})"),
        short_column(f"{METRICS[NDCG]} on D_merge", f"{NDCG}_merge"),
    ]
    return rows_table("weights of M_2 in linear combinations", "in brackets: published", columns, rows)


def _parameter_table(rows: Sequence[Row]) -> Table:
    names = {
        "learning_rate": "learning\nrate",
        "num_leaves": "leaves",
        "min_data_in_leaf": "min data\nin leaf",
        "min_sum_hessian_in_leaf": "min Hessian\nin leaf",
        "trees": "trees",
    }
    columns = [
        Column("split", lambda row: {None: "all", 0: "initial"}.get(row["split"], str(row["split"])), "name"),
        text_column("model", "model", "name"),
        *(Column(heading, partial(_setting, name)) for name, heading in names.items()),
        short_column(METRICS[NDCG], f"{NDCG}_validation"),
    ]
    caption = "nDCG@10 on the queries that selected them"
    return rows_table("selected hyper-parameters", caption, columns, rows)


def _setting(name: str, row: Row) -> str:
    return f"{row[name]:g}"


def _verdicts(rows: Sequence[Row]) -> list[str]:
    return [
        f"{_METHODS[row['method']]}: {row['better']} of {row['models']} merged models beat the better local "
        f"model by {METRICS[row['metric']]}, {row['significant']} of them significantly; in {row['splits']} "
        f"of {row['of_splits']} splits one client's or both, in {row['both']} both"
        for row in rows
        if row["metric"] == NDCG
    ]
