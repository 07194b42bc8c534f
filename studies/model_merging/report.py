"""The report on a study of model merging: its columns, beside the figures of the paper, and its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from foltr_audit.studies.model_merging.local_baselines import DATA, SOURCE, figure, local_names
from foltr_audit.studies.model_merging.splits import PAIR, group_names
from foltr_audit.studies.model_merging.trainers import METRICS, NDCG

from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.table import Column, Table, columns_of, make_table, percent, whole_percent
from foltr_audit.report.terminal import print_lines, print_table
from foltr_audit.utils.formatting import JsonValue, short

if TYPE_CHECKING:
    from rich.console import Console


DATASET = Section(
    "source intents:int? intents_from:str? rows_read:int? rows_joined:int? synthetic:bool normalised "
    "features:int fold:int fingerprint train:int vali:int test:int test_without_relevant:int "
    "category_feature:int|null topics"
)
SECTIONS = {
    "mixtures": Section("part queries:int exclusive:num tie:num lead_1_to_3:num lead_over_3:num"),
    "statistics": Section(
        "part category:int|null method:str|null group queries:int relevant_documents:int pairs:int"
    ),
    "histogram": Section("category:int relevant_documents:int queries:int"),
    "local": Section("split:int method category:int|null model on queries:int ndcg@10:num published:num"),
    "merged": Section(
        "split:int model method metric value:num p_a:num|null p_b:num|null marks published:num ..."
    ),
    "weights": Section(
        "split:int client:int queries:int alpha:num alphas:[num] ndcg@10_merge:num published_alpha:num"
    ),
    "verdicts": Section(
        "method metric models:int better:int significant:int of_splits:int splits:int both:int "
        "largest_gain:num largest_gain_over_better:num published_gain:num published_gain_over_better:num"
    ),
    "hyperparameters": Section("split:int|null model trees:int ndcg@10_validation:num ..."),
    "importances": Section("split:int model feature:int gain_share:num splits:int"),
}
_PUBLISHED = Section("source data")


@dataclass(frozen=True, kw_only=True)
class MergeReport(Document):
    """The findings of a study.

    Mixtures are shares of the queries with relevant documents: all of one category; and of the others,
    tied, or the largest category leads by 1 to 3 documents or by more. Statistics are table 2 of the paper,
    with `category` and `method` None for all of a part; the histogram and the importances figures 2 and 3;
    the hyper-parameters table 6. Local models are judged on the test queries of each client, as in table 3,
    and as in table 1 for the initial split, number 0; merged ones on the whole test part, as in tables 4
    and 5, with corrected p-values of the difference from each local one, and the letters of those that it
    differs from. Weights are those of all local models in linear combinations, and alpha that of M_2, with
    the size of D_merge. Verdicts count the merged models that are better than the best local one, and have
    the largest relative gains. Notes tell in words of deviations from the paper's rules, and of models that
    learnt nothing.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/merge/1"
    FIELDS: ClassVar[Section] = Section(
        "config:{any}",
        nested("dataset", DATASET, many=False),
        "categories:[int] trainer",
        *(nested(name, section) for name, section in SECTIONS.items()),
        "notes:[str]",
        nested("published", _PUBLISHED, many=False),
    )

    config: Mapping[str, JsonValue]
    dataset: Row
    categories: Sequence[int]
    trainer: str
    mixtures: Sequence[Row]
    statistics: Sequence[Row]
    histogram: Sequence[Row]
    local: Sequence[Row]
    merged: Sequence[Row]
    weights: Sequence[Row]
    verdicts: Sequence[Row]
    hyperparameters: Sequence[Row]
    importances: Sequence[Row]
    notes: Sequence[str]
    published: ClassVar[Row] = _PUBLISHED.row({"source": SOURCE, "data": DATA})

    @classmethod
    def of(cls, rows: Mapping[str, Sequence[Mapping[str, Any]]], **others: Any) -> MergeReport:
        """The report on the rows of each section, with its `others` fields."""
        sections: dict[str, Any] = {
            name: list(map(section.row, rows[name])) for name, section in SECTIONS.items()
        }
        return cls(**sections, **others)

    @property
    def clients(self) -> int:
        return max(PAIR, len(self.categories))

    def rows(self) -> list[dict[str, JsonValue]]:
        """The metrics of local and merged models with the columns that they have in JSON."""
        return [row.plain() for row in self.merged]

    def show(self, console: Console) -> None:
        """Print every table, with published figures in brackets, and the verdicts."""
        print_lines(_header(self), console)
        console.print()
        for table in _tables(self):
            print_table(table, console)
            console.print()
        print_lines((*_verdicts(self), *_caption(self.clients)), console)


_METHODS = {"linear": "linear combination", "stacking": "stacking"}


def _caption(clients: int) -> Iterator[str]:
    yield f"In brackets: figures published on {DATA} ({SOURCE}), which may be other data."
    names = local_names(clients)
    yield (
        f"{', '.join(names.values())}: different from {', '.join(names)} by a paired t-test over test "
        f"queries, p < .05 after Bonferroni's correction for {clients**2} tests."
    )
    yield "Queries without relevant documents belong to no client; in DS they count as 0."


def _header(study: MergeReport) -> Iterator[str]:
    data = study.dataset
    kind = "synthetic data" if data["synthetic"] else "data"
    categories = ", ".join(map(str, study.categories))
    feature = "all features" if data["category_feature"] is None else f"feature {data['category_feature']}"
    by = "category in" if data["topics"] == "feature" else f"category: {data['topics']} of"
    chosen = "first and second category" if study.clients == PAIR else "a client for each category"
    yield (
        f"{kind} {data['source']}, {data['features']} features, {by} {feature}; {chosen}: {categories}; "
        f"models: {study.trainer}"
    )
    shares = {
        name: f"{percent(study.mixtures[0][name])} ({whole_percent(figure('mixtures', name, part='train'))})"
        for name in ("exclusive", "tie", "lead_1_to_3", "lead_over_3")
    }
    yield (
        f"training queries: {shares['exclusive']} of one category only, {shares['tie']} tied; of the others "
        f"the largest category leads by 1 to 3 in {shares['lead_1_to_3']}, by more in {shares['lead_over_3']}"
    )


def _tables(study: MergeReport) -> Iterator[Table]:
    clients = study.clients
    brackets = "in brackets: published" if clients == PAIR else ""
    yield _lines_table(
        "splits",
        "queries / relevant documents / pairs; remain: queries with relevant documents in neither",
        ("part", "category", "DS_1 by", *group_names(clients), "remain"),
        3,
        _statistics_lines(study.statistics, group_names(clients)),
    )
    for second in ("DS_2", "DS'_2"):
        local = [row for row in study.local if (row["split"] == 0) == (second == "DS_2")]
        if local:
            yield _lines_table(
                f"{METRICS[NDCG]} of local models on test queries",
                brackets,
                ("split", "category", "DS_1 by", "model", *group_names(clients, second), "DS"),
                4,
                _local_lines(local),
            )
    for method, name in _METHODS.items():
        merged = [row for row in study.merged if row["method"] in ("local", method)]
        yield _lines_table(
            f"{name}: the whole test part",
            brackets,
            ("split", "model", *METRICS.values()),
            2,
            _merged_lines(merged, local_names(clients)),
        )
    yield make_table(
        f"weights of {'M_2' if clients == PAIR else ', '.join(local_names(clients))} in linear combinations",
        _WEIGHTS,
        study.weights,
        caption=brackets,
    )
    yield make_table(
        "selected hyper-parameters",
        _PARAMETERS,
        study.hyperparameters,
        caption="nDCG@10 on the queries that selected them",
    )


_Line = tuple[object, ...]
"""The block between rules that a line of a table is in, and its texts."""


def _lines_table(
    title: str, caption: str, headers: Sequence[str], names: int, lines: Iterator[_Line]
) -> Table:
    """A table of texts, whose first columns are names and the others numbers."""
    columns = [
        Column(header, itemgetter(place), "name" if place <= names else "number")
        for place, header in enumerate(headers, start=1)
    ]
    return make_table(title, columns, lines, caption=caption, section=itemgetter(0))


def _statistics_lines(rows: Sequence[Row], names: Sequence[str]) -> Iterator[_Line]:
    for part in dict.fromkeys(row["part"] for row in rows):
        whole, *groups = [row for row in rows if row["part"] == part]
        yield part, part, "", "all: DS", _sizes(whole), *[""] * len(names)
        for category, method in dict.fromkeys((row["category"], row["method"]) for row in groups):
            of = {
                row["group"]: row for row in groups if (row["category"], row["method"]) == (category, method)
            }
            sizes = [_sizes(of[name]) for name in names]
            yield part, "", _category(category), method, *sizes, f"{of['remaining']['queries']:,}"


def _category(category: int | None) -> str:
    return "each" if category is None else str(category)


def _sizes(row: Row) -> str:
    return f"{row['queries']:,} / {row['relevant_documents']:,} / {row['pairs']:,}"


def _local_lines(rows: Sequence[Row]) -> Iterator[_Line]:
    for split in dict.fromkeys(row["split"] for row in rows):
        of_split = [row for row in rows if row["split"] == split]
        names = [str(split or "-"), _category(of_split[0]["category"]), of_split[0]["method"]]
        for model in dict.fromkeys(row["model"] for row in of_split):
            figures = [
                _with_published(row["ndcg@10"], row["published"]) for row in of_split if row["model"] == model
            ]
            yield split, *names, model, *figures
            names = [""] * 3


def _with_published(value: float, paper: float, marks: str = "") -> str:
    return f"{short(value)}{marks:<2}" + ("" if math.isnan(paper) else f" ({short(paper)})")


def _merged_lines(rows: Sequence[Row], letters: Mapping[str, str]) -> Iterator[_Line]:
    for split in dict.fromkeys(row["split"] for row in rows):
        shown = str(split)
        for model in dict.fromkeys(row["model"] for row in rows):
            of_model = [row for row in rows if (row["split"], row["model"]) == (split, model)]
            figures = (_with_published(row["value"], row["published"], row["marks"]) for row in of_model)
            yield split, shown, f"{model} ({letters[model]})" if model in letters else model, *figures
            shown = ""


def _alphas(row: Row) -> str:
    if len(row["alphas"]) > PAIR:
        return ", ".join(f"{alpha:.2f}" for alpha in row["alphas"])
    return f"{row['alpha']:.2f} ({row['published_alpha']:.2f})"


_WEIGHTS = [
    *columns_of("split; client; queries of D_merge=queries"),
    Column("alpha", _alphas),
    *columns_of(f"{METRICS[NDCG]} on D_merge=ndcg@10_merge:3"),
]


def _parameter(header: str, name: str) -> Column:
    return Column(header, lambda row: f"{row[name]:g}")


_PARAMETERS = [
    Column("split", lambda row: {None: "all", 0: "initial"}.get(row["split"], str(row["split"])), "name"),
    *columns_of("model:name"),
    _parameter("learning\nrate", "learning_rate"),
    _parameter("leaves", "num_leaves"),
    _parameter("min data\nin leaf", "min_data_in_leaf"),
    _parameter("min Hessian\nin leaf", "min_sum_hessian_in_leaf"),
    *columns_of(f"trees; {METRICS[NDCG]}=ndcg@10_validation:3"),
]


def _verdicts(study: MergeReport) -> Iterator[str]:
    better, more, every = ("better", "both", "both") if study.clients == PAIR else ("best", "more", "all")
    for row in study.verdicts:
        name, metric = _METHODS[row["method"]], METRICS[row["metric"]]
        if row["metric"] == NDCG:
            yield (
                f"{name}: {row['better']} of {row['models']} merged models beat the {better} local model by "
                f"{metric}, {row['significant']} of them significantly; in {row['splits']} of "
                f"{row['of_splits']} splits one client's or {more}, in "
                f"{row['both']} {every}"
            )
        if row["metric"] in _GAINS:
            yield (
                f"{name}: largest gain in {metric} over a local model {_gain(row, 'gain')}, over the "
                f"{better} one of a split {_gain(row, 'gain_over_better')}"
            )


_GAINS = (NDCG, "map@10")
"""Metrics of which the paper names the largest gains."""


def _gain(row: Row, name: str) -> str:
    found, paper = row[f"largest_{name}"], row[f"published_{name}"]
    return f"{100 * found:+.1f} %" + ("" if math.isnan(paper) else f" ({100 * paper:+.1f} %)")
