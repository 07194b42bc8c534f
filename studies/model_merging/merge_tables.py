"""The tables of a study of model merging."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from foltr_audit.studies.model_merging import published
from foltr_audit.studies.model_merging.lambdamart import METRICS, NDCG
from foltr_audit.studies.model_merging.local_baselines import MERGED
from foltr_audit.studies.model_merging.merge_rows import (
    LocalRow,
    MergedRow,
    ParameterRow,
    SplitSizes,
    VerdictRow,
    WeightRow,
)
from foltr_audit.studies.model_merging.study import MergeReport
from rich.markup import escape

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.tables.columns import percent, short_column
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import short

if TYPE_CHECKING:
    from rich.console import Console

_METHODS = {"linear": "linear combination", "stacking": "stacking"}
_PUBLISHED = "in brackets: published"


def print_merging(study: MergeReport, console: Console) -> None:
    """Print every table of a study, with published figures in brackets, and its verdicts."""
    console.print(_header(study), highlight=False)
    console.print(_mixture_line(study), highlight=False)
    console.print()
    tables = [_statistics_table(study.statistics), *_local_tables(study.local)]
    tables += [_merged_table(study.merged, method) for method in MERGED]
    tables += [_weight_table(study.weights), _parameter_table(study.hyperparameters)]
    for one in tables:
        print_table(one, console)
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
    data = study.dataset.facts
    kind = "synthetic data" if data.synthetic else "data"
    categories = ", ".join(map(str, study.categories))
    return escape(
        f"{kind} {data.source}, {data.features} features, category in feature "
        f"{study.dataset.category_feature}; first and second category: {categories}"
    )


def _mixture_line(study: MergeReport) -> str:
    row = study.mixtures[0]
    return (
        f"training queries: {percent(row.exclusive)} of one category only, {percent(row.tie)} tied; "
        f"the largest category leads by 1 to 3 in {percent(row.lead_1_to_3)}, by more in "
        f"{percent(row.lead_over_3)}"
    )


class _Line(NamedTuple):
    """A line of a table: texts, and the block between rules that it is in."""

    texts: Sequence[str]
    block: object


def _lines_table(
    title: str, caption: str, headers: Sequence[str], names: int, lines: Sequence[_Line]
) -> Table:
    """A table of texts, whose first columns are names and the others numbers."""

    def text(place: int) -> Callable[[_Line], str]:
        return lambda line: line.texts[place]

    columns = [
        Column[_Line](header, text(place), "name" if place < names else "number")
        for place, header in enumerate(headers)
    ]
    return make_table(title, columns, lines, caption=caption, section=lambda line: line.block)


def _statistics_table(rows: Sequence[SplitSizes]) -> Table:
    return _lines_table(
        "splits",
        "queries / relevant documents / pairs; remain: queries with relevant documents in neither",
        ("part", "category", "DS_1 by", "DS_1", "DS'_2", "remain"),
        3,
        list(_statistics_lines(rows)),
    )


def _statistics_lines(rows: Sequence[SplitSizes]) -> Iterator[_Line]:
    for part in dict.fromkeys(row.part for row in rows):
        mine = [row for row in rows if row.part == part]
        yield _Line((part, "", "all: DS", _sizes(mine[0]), "", ""), part)
        for category, method in dict.fromkeys((row.category, row.method) for row in mine[1:]):
            groups = {row.group: row for row in mine if (row.category, row.method) == (category, method)}
            sizes = (_sizes(groups[name]) for name in ("DS_1", "DS'_2"))
            remaining = f"{groups['remaining'].queries:,}"
            yield _Line(("", str(category), str(method), *sizes, remaining), part)


def _sizes(row: SplitSizes) -> str:
    return f"{row.queries:,} / {row.relevant_documents:,} / {row.pairs:,}"


def _local_tables(rows: Sequence[LocalRow]) -> Iterator[Table]:
    for initial in (True, False):
        mine = [row for row in rows if (row.split == 0) == initial]
        if mine:
            yield _lines_table(
                f"{METRICS[NDCG]} of local models on test queries",
                _PUBLISHED,
                ("split", "category", "DS_1 by", "model", "DS_1", "DS_2" if initial else "DS'_2", "DS"),
                4,
                list(_local_lines(mine)),
            )


def _local_lines(rows: Sequence[LocalRow]) -> Iterator[_Line]:
    for split in dict.fromkeys(row.split for row in rows):
        mine = [row for row in rows if row.split == split]
        names = [str(split or "-"), str(mine[0].category), mine[0].method]
        for model in published.MODELS:
            cells = [_with_published(row.ndcg, row.published) for row in mine if row.model == model]
            yield _Line((*names, model, *cells), split)
            names = [""] * 3


def _with_published(value: float, paper: float, marks: str = "") -> str:
    return f"{short(value)}{marks:<2} ({short(paper)})"


def _merged_table(rows: Sequence[MergedRow], method: str) -> Table:
    return _lines_table(
        f"{_METHODS[method]}: the whole test part",
        _PUBLISHED,
        ("split", "model", *METRICS.values()),
        2,
        list(_merged_lines(rows, ("M_1", "M_2", *MERGED[method]))),
    )


def _merged_lines(rows: Sequence[MergedRow], models: Sequence[str]) -> Iterator[_Line]:
    for split in dict.fromkeys(row.split for row in rows):
        for number, model in enumerate(models):
            mine = [row for row in rows if (row.split, row.model) == (split, model)]
            cells = (_with_published(row.value, row.published, row.marks) for row in mine)
            letter = {"M_1": " (a)", "M_2": " (b)"}.get(model, "")
            yield _Line((str(split) if number == 0 else "", f"{model}{letter}", *cells), split)


def _weight_table(rows: Sequence[WeightRow]) -> Table:
    columns: list[Column[WeightRow]] = [
        Column("split", lambda row: str(row.split)),
        Column("client", lambda row: str(row.client)),
        Column("queries of D_merge", lambda row: str(row.queries)),
        Column("alpha", lambda row: f"{row.alpha:.2f} ({row.published_alpha:.2f})"),
        short_column(f"{METRICS[NDCG]} on D_merge", lambda row: row.ndcg),
    ]
    return make_table("weights of M_2 in linear combinations", columns, rows, caption=_PUBLISHED)


_PARAMETERS = {
    "learning_rate": "learning\nrate",
    "num_leaves": "leaves",
    "min_data_in_leaf": "min data\nin leaf",
    "min_sum_hessian_in_leaf": "min Hessian\nin leaf",
}


def _parameter_table(rows: Sequence[ParameterRow]) -> Table:
    def parameter(header: str, name: str) -> Column[ParameterRow]:
        return Column(header, lambda row: f"{row.parameters[name]:g}")

    columns: list[Column[ParameterRow]] = [
        Column("split", lambda row: {None: "all", 0: "initial"}.get(row.split, str(row.split)), "name"),
        Column("model", lambda row: row.model, "name"),
        *(parameter(header, name) for name, header in _PARAMETERS.items()),
        Column("trees", lambda row: str(row.trees)),
        short_column(METRICS[NDCG], lambda row: row.ndcg),
    ]
    caption = "nDCG@10 on the queries that selected them"
    return make_table("selected hyper-parameters", columns, rows, caption=caption)


def _verdicts(rows: Sequence[VerdictRow]) -> list[str]:
    return [
        f"{_METHODS[row.method]}: {row.better} of {row.models} merged models beat the better local "
        f"model by {METRICS[row.metric]}, {row.significant} of them significantly; in {row.splits} "
        f"of {row.of_splits} splits one client's or both, in {row.both} both"
        for row in rows
        if row.metric == NDCG
    ]
