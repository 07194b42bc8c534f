"""The report on a study of model merging: its columns, beside the figures of the paper, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from foltr_audit.studies.model_merging import published
from foltr_audit.studies.model_merging.lambdamart import METRICS, NDCG
from foltr_audit.studies.model_merging.local_baselines import MERGED

from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.table import Column, Table, make_table, percent, short_column
from foltr_audit.report.terminal import print_lines, print_table
from foltr_audit.utils.formatting import JsonValue, short

if TYPE_CHECKING:
    from rich.console import Console


DATASET = Section(
    "source intents:int? intents_from:str? rows_read:int? rows_joined:int? synthetic:bool normalised "
    "features:int fold:int fingerprint train:int vali:int test:int test_without_relevant:int "
    "category_feature:int"
)
SECTIONS = {
    "mixtures": Section("part queries:int exclusive:num tie:num lead_1_to_3:num lead_over_3:num"),
    "statistics": Section(
        "part category:int|null method:str|null group queries:int relevant_documents:int pairs:int"
    ),
    "histogram": Section("category:int relevant_documents:int queries:int"),
    "local": Section("split:int method category:int model on queries:int ndcg@10:num published:num"),
    "merged": Section(
        "split:int model method metric value:num p_a:num|null p_b:num|null marks published:num"
    ),
    "weights": Section("split:int client:int queries:int alpha:num ndcg@10_merge:num published_alpha:num"),
    "verdicts": Section(
        "method metric models:int better:int significant:int of_splits:int splits:int both:int"
    ),
    "hyperparameters": Section("split:int|null model trees:int ndcg@10_validation:num ..."),
    "importances": Section("split:int model feature:int gain_share:num splits:int"),
}
_PUBLISHED = Section("source data")


@dataclass(frozen=True, kw_only=True)
class MergeReport(Document):
    """The findings of a study.

    Mixtures are shares of the queries with relevant documents: all of one category, tied, or the largest
    category leads by 1 to 3 documents or by more. Statistics are table 2 of the paper, with `category` and
    `method` None for all of a part; the histogram and the importances figures 2 and 3; the hyper-parameters
    table 6. Local models are judged on the test queries of each client, as in table 3, and as in table 1 for
    the initial split, number 0; merged ones on the whole test part, as in tables 4 and 5, with corrected
    p-values of the difference from M_1 and M_2, and the letters of those that it differs from. Weights are
    those of M_2 in linear combinations, with the size of D_merge. Verdicts count the merged models that are
    better than the better local one. Notes tell in words of deviations from the paper's rules, and of models
    that learnt nothing.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/merge/1"
    FIELDS: ClassVar[Section] = Section(
        "config:{any}",
        nested("dataset", DATASET, many=False),
        "categories:[int]",
        *(nested(name, section) for name, section in SECTIONS.items()),
        "notes:[str]",
        nested("published", _PUBLISHED, many=False),
    )

    config: Mapping[str, JsonValue]
    dataset: Row
    categories: Sequence[int]
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
    published: ClassVar[Row] = _PUBLISHED.row({"source": published.SOURCE, "data": published.DATA})

    @classmethod
    def of(
        cls,
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        config: Mapping[str, JsonValue],
        dataset: Row,
        categories: Sequence[int],
        notes: Sequence[str],
    ) -> MergeReport:
        """The report on the rows of each section."""
        sections = {name: [section.row(row) for row in rows[name]] for name, section in SECTIONS.items()}
        return cls(config=config, dataset=dataset, categories=categories, notes=notes, **sections)

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
        print_lines((*_verdicts(self.verdicts), *_CAPTION), console)


_METHODS = {"linear": "linear combination", "stacking": "stacking"}
_BRACKETS = "in brackets: published"
_CAPTION = (
    f"In brackets: figures published on {published.DATA} ({published.SOURCE}), which may be other data.",
    "a, b: different from M_1, M_2 by a paired t-test over test queries, p < .05 after Bonferroni's "
    "correction for 4 tests.",
    "Queries without relevant documents belong to no client; in DS they count as 0.",
)


def _header(study: MergeReport) -> Iterator[str]:
    data, mixture = study.dataset, study.mixtures[0]
    kind = "synthetic data" if data["synthetic"] else "data"
    categories = ", ".join(map(str, study.categories))
    yield (
        f"{kind} {data['source']}, {data['features']} features, category in feature "
        f"{data['category_feature']}; first and second category: {categories}"
    )
    yield (
        f"training queries: {percent(mixture['exclusive'])} of one category only, {percent(mixture['tie'])} "
        f"tied; the largest category leads by 1 to 3 in {percent(mixture['lead_1_to_3'])}, by more in "
        f"{percent(mixture['lead_over_3'])}"
    )


def _tables(study: MergeReport) -> Iterator[Table]:
    yield _lines_table(
        "splits",
        "queries / relevant documents / pairs; remain: queries with relevant documents in neither",
        ("part", "category", "DS_1 by", "DS_1", "DS'_2", "remain"),
        3,
        _statistics_lines(study.statistics),
    )
    for second in ("DS_2", "DS'_2"):
        local = [row for row in study.local if (row["split"] == 0) == (second == "DS_2")]
        if local:
            yield _lines_table(
                f"{METRICS[NDCG]} of local models on test queries",
                _BRACKETS,
                ("split", "category", "DS_1 by", "model", "DS_1", second, "DS"),
                4,
                _local_lines(local),
            )
    for method, models in MERGED.items():
        yield _lines_table(
            f"{_METHODS[method]}: the whole test part",
            _BRACKETS,
            ("split", "model", *METRICS.values()),
            2,
            _merged_lines(study.merged, ("M_1", "M_2", *models)),
        )
    yield make_table("weights of M_2 in linear combinations", _WEIGHTS, study.weights, caption=_BRACKETS)
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


def _statistics_lines(rows: Sequence[Row]) -> Iterator[_Line]:
    for part in dict.fromkeys(row["part"] for row in rows):
        whole, *groups = [row for row in rows if row["part"] == part]
        yield part, part, "", "all: DS", _sizes(whole), "", ""
        for category, method in dict.fromkeys((row["category"], row["method"]) for row in groups):
            of = {
                row["group"]: row for row in groups if (row["category"], row["method"]) == (category, method)
            }
            remaining = f"{of['remaining']['queries']:,}"
            yield part, "", str(category), method, _sizes(of["DS_1"]), _sizes(of["DS'_2"]), remaining


def _sizes(row: Row) -> str:
    return f"{row['queries']:,} / {row['relevant_documents']:,} / {row['pairs']:,}"


def _local_lines(rows: Sequence[Row]) -> Iterator[_Line]:
    for split in dict.fromkeys(row["split"] for row in rows):
        of_split = [row for row in rows if row["split"] == split]
        names = [str(split or "-"), str(of_split[0]["category"]), of_split[0]["method"]]
        for model in published.MODELS:
            figures = [
                _with_published(row["ndcg@10"], row["published"]) for row in of_split if row["model"] == model
            ]
            yield split, *names, model, *figures
            names = [""] * 3


def _with_published(value: float, paper: float, marks: str = "") -> str:
    return f"{short(value)}{marks:<2} ({short(paper)})"


def _merged_lines(rows: Sequence[Row], models: Sequence[str]) -> Iterator[_Line]:
    for split in dict.fromkeys(row["split"] for row in rows):
        for number, model in enumerate(models):
            of_model = [row for row in rows if (row["split"], row["model"]) == (split, model)]
            figures = (_with_published(row["value"], row["published"], row["marks"]) for row in of_model)
            letter = {"M_1": " (a)", "M_2": " (b)"}.get(model, "")
            yield split, str(split) if number == 0 else "", f"{model}{letter}", *figures


_WEIGHTS = [
    Column("split", "split"),
    Column("client", "client"),
    Column("queries of D_merge", "queries"),
    Column("alpha", lambda row: f"{row['alpha']:.2f} ({row['published_alpha']:.2f})"),
    short_column(f"{METRICS[NDCG]} on D_merge", "ndcg@10_merge"),
]


def _parameter(header: str, name: str) -> Column:
    return Column(header, lambda row: f"{row[name]:g}")


_PARAMETERS = [
    Column("split", lambda row: {None: "all", 0: "initial"}.get(row["split"], str(row["split"])), "name"),
    Column("model", "model", "name"),
    _parameter("learning\nrate", "learning_rate"),
    _parameter("leaves", "num_leaves"),
    _parameter("min data\nin leaf", "min_data_in_leaf"),
    _parameter("min Hessian\nin leaf", "min_sum_hessian_in_leaf"),
    Column("trees", "trees"),
    short_column(METRICS[NDCG], "ndcg@10_validation"),
]


def _verdicts(rows: Sequence[Row]) -> list[str]:
    return [
        f"{_METHODS[row['method']]}: {row['better']} of {row['models']} merged models beat the better local "
        f"model by {METRICS[row['metric']]}, {row['significant']} of them significantly; in {row['splits']} "
        f"of {row['of_splits']} splits one client's or both, in {row['both']} both"
        for row in rows
        if row["metric"] == NDCG
    ]
