"""The page of a comparison.

It is one file without network access: its script and style are named by their hashes in a strict
content security policy, and every text is escaped. Without scripts it shows the table of the worst case.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.warning_kinds import WARNINGS
from foltr_audit.experiments.comparison.folder import CELLS, GRID
from foltr_audit.experiments.comparison.grid import CellPlan
from foltr_audit.experiments.decide import BEATS
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.experiments.versions import versions
from foltr_audit.privacy.observer_views import SEES, VIEWS, attacked_view
from foltr_audit.report.compare_tables import (
    auc_cell,
    byte_count,
    claims_table,
    difference_cell,
    epsilons_of,
    guess_cell,
    verdict_words,
)
from foltr_audit.report.decision import MARKS, decision_sentences
from foltr_audit.report.documents import Row
from foltr_audit.report.settings import ABOVE, GRADES, data_title
from foltr_audit.report.table import (
    Cell,
    Column,
    Mark,
    Table,
    bound_text,
    capitalised,
    counted,
    make_table,
    short_method,
)
from foltr_audit.utils.formatting import join_names, json_text, short

if TYPE_CHECKING:
    from foltr_audit.report.compare import CompareReport

MOST_ROWS = 1000
"""Rows of a folded table; more are in JSON only."""

SIGNS: Mapping[Mark, str] = {"good": "✔ ", "warn": "! ", "bad": "✖ "}
"""What stands before a verdict, by its mark."""

_TABLE = (
    "ε: proven for one search (interaction) by accounting; smaller is more private, ∞: nothing is proven, "
    "-: not audited. AUC: 1 reads every click; the guess knows neither message nor grades (by position or "
    "at random), and only what an attack adds to it comes from messages. In brackets: 95 % intervals. Each "
    "row is the worst case of all settings: the attack that adds most and the largest loss, maybe of other "
    "clicks."
)
_CHOICES = {"click_model": "Clicks", "scenario": "Clients", "data": "Data", "learner": "Learner"}
"""Labels of choices by the column that they are about."""

_PLACE = "name click_model learner scenario"
_HEADERS = {
    "name": "defense",
    "online_mean": "online nDCG@10",
    "baseline": "is a guess",
    "guess": "best guess",
}
_PANELS = {OFFLINE_NDCG: "offline nDCG@10 of the global model", ONLINE_NDCG: "online nDCG@10 of shown lists"}


class Selector(NamedTuple):
    """A choice: its name, its label, and its options with their texts."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A part of the page that is folded."""

    title: str
    note: str = ""
    texts: Sequence[str] = ()
    code: Sequence[str] = ()
    curves: bool = False
    tables: Sequence[Table] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page says."""

    headline: str
    lead: Sequence[str]
    tiles: Sequence[tuple[str, Cell]]
    notices: Sequence[str]
    defenses: Fold
    selectors: Sequence[Selector]
    folds: Sequence[Fold]
    made_by: str
    data: Mapping[str, Any]


def page_of(report: CompareReport, grid: str, cells: Mapping[str, CellPlan]) -> Page:
    """What the page of a comparison says; its grid, as TOML, and its cells by name are how to repeat it."""
    decision, data, rows = report.decision, report.dataset, _page_rows(report)
    said = [] if decision is None else decision_sentences(decision)
    chosen = [row for row in rows if row["verdict"] == "recommended"]
    headline, _, rest = (
        said[0].partition(". " if chosen else ": ") if said else ("No cell is done yet", "", "")
    )
    lead = [rest, *said[1:2]]
    defenses = _defenses(report, rows)
    synthetic = bool(data) and data["synthetic"]
    return Page(
        headline=headline.rstrip("."),
        lead=[capitalised(text) for text in lead if text],
        tiles=_tiles(rows, worst_case(chosen)) if chosen else [],
        notices=[
            *report.progress,
            *report.server,
            *dict.fromkeys(world.no_sum for world in report.world_tables if world.no_sum),
            *said[2:],
            *(["The data are synthetic: what holds here need not hold for real users."] if synthetic else []),
        ],
        defenses=defenses,
        selectors=[*_selectors(rows)],
        folds=[fold for fold in _folds(report, grid, cells) if fold.texts or fold.curves or fold.tables],
        made_by=f"foltr-audit {versions()['foltr-audit']}, {data_title(data) if data else 'no data'}, "
        f"seed {_seeds(cells)}",
        data={
            "rows": [row.plain() for row in rows],
            "curves": [row.plain() for row in _of_epsilon(report.curves, _epsilons(rows))],
            "panels": _PANELS,
            "defenses": list(dict.fromkeys(row["alternative"] for row in rows)),
            "views": _proven_views(rows),
            "audited": _audited_views(rows),
            "head": [column.header for table in defenses.tables for column in table.columns],
            "sees": SEES,
            "marks": {verdict: [mark, SIGNS.get(mark, "")] for verdict, mark in MARKS.items()},
        },
    )


# --- rows ------------------------------------------------------------------------------------------


def _page_rows(report: CompareReport) -> list[Row]:
    """The results, each with its verdict, the observer that was attacked, and what its best attack shows."""
    if report.decision is None:
        return []
    pools = [(world, pool) for world in report.worlds for pool in world.pools]
    rows = []
    for row, (world, pool) in zip(report.results, pools, strict=True):
        leak, protocol = world.leaks.get(pool.key), pool.spec.attack or AttackSpec()
        rows.append(
            row.with_values(
                verdict=report.decision.judgement(row),
                attacked=attacked_view(protocol.view, protocol.hide),
                beats=leak is not None and leak.kind in BEATS,
                guess_by="no guess" if row["baseline"] is None else short_method(row["baseline"]),
            )
        )
    return rows


def worst_case(rows: Sequence[Row]) -> Row:
    """The row whose attack adds most to the guess, with the largest loss, maybe of other clicks."""

    def loss(row: Row) -> float:
        difference = row.estimate("ndcg@10_difference")
        quality = difference if difference.known else row.estimate("ndcg@10")
        return -quality.value if quality.known else 0.0

    leak = max(rows, key=lambda row: row.number("above_guess") if row.estimate("auc").known else -1.0)
    cost = max(rows, key=loss)
    quality = {name: cost[name] for name in ("ndcg@10", "ndcg@10_difference")}
    return leak.with_values(**quality, cost_clicks=cost["click_model"])


def _audited_views(rows: Sequence[Row]) -> list[str]:
    return [view for view in VIEWS if any(f"eps_proven_{view}" in row for row in rows)]


def _proven_views(rows: Sequence[Row]) -> list[str]:
    """The views with proofs, the one that was attacked first."""
    proven = {ceiling["view"] for row in rows for ceiling in row["ceilings"]} or {"individual"}
    attacked = {row["attacked"] for row in rows}
    return sorted((view for view in VIEWS if view in proven), key=lambda view: view not in attacked)


# --- above the folds -------------------------------------------------------------------------------


def _columns(rows: Sequence[Row]) -> list[Column]:
    """What is proven of a defense, what attacks find, and what it costs."""

    def proven(view: str) -> Column:
        name = f"eps_proven_{view}"
        return Column(f"proven ε, server sees {SEES[view]}", lambda row: bound_text(row.get(name)))

    return [
        Column("defense", "name", "name"),
        Column("verdict", lambda row: SIGNS.get(MARKS[row["verdict"]], "") + row["verdict"], "name"),
        *map(proven, _audited_views(rows)),
        Column("AUC of the best attack", auc_cell),
        Column("AUC of the best guess without message and grades", guess_cell),
        Column("what the attack adds to the guess", ABOVE.of),
        Column("AUC of the guess that knows the grades", GRADES.of),
        Column("nDCG@10", "ndcg@10"),
        Column("difference to no defense", lambda row: difference_cell(row.estimate("ndcg@10_difference"))),
        Column("bytes a client and round", byte_count),
    ]


def _tiles(rows: Sequence[Row], chosen: Row) -> list[tuple[str, Cell]]:
    """Four numbers of the recommended defense: what is proven, the best attack and guess, and both costs."""
    *proven, auc, _, _, _, _, difference, sent = _columns(rows)[2:]
    cells = {column.header: column.cell(chosen) for column in (*proven[:1], auc, difference, sent)}
    found = cells[auc.header]
    beside = f"{found.below}, the guess {short(chosen['baseline_auc'])}".removeprefix(", ")
    return [*(cells | {auc.header: found._replace(below=beside)}).items()]


def _epsilons(rows: Sequence[Row]) -> list[float]:
    """Those that defenses were made for, first that of the recommended one, or else the smallest."""
    chosen = [row["eps"] for row in rows if row["verdict"] == "recommended"]
    return sorted(epsilons_of(rows), key=lambda eps: eps not in chosen)


def _of_epsilon(rows: Sequence[Row], epsilons: Sequence[float]) -> list[Row]:
    return [row for row in rows if row["eps"] in (None, *epsilons[:1])]


def _defenses(report: CompareReport, rows: Sequence[Row]) -> Fold:
    """Each defense at the first of `_epsilons`, in the worst case of all worlds."""
    if report.decision is None:
        return Fold(title="The defenses")
    of_defense: dict[str, list[Row]] = {}
    epsilons = _epsilons(rows)
    for row in _of_epsilon(rows, epsilons):
        of_defense.setdefault(row["alternative"], []).append(row)
    others = ", ".join(f"{each:g}" for each in epsilons[1:])
    lists = [row["lists"] for row in rows if row["lists"] is not None]
    span = " to ".join(map(str, sorted({min(lists), max(lists)}))) if lists else "no"
    return Fold(
        title="The defenses",
        texts=[
            _TABLE,
            *([f"Claimed ε here: {epsilons[0]:g}; for {others} see Every result."] if others else []),
            f"{verdict_words(report.decision, rows)}.",
            f"Attacks are judged on {span} lists with a click for each defense.",
        ],
        tables=[make_table("", _columns(rows), map(worst_case, of_defense.values()))],
    )


def _selectors(rows: Sequence[Row]) -> Iterator[Selector]:
    """A choice for everything that rows differ in; of worlds the worst case comes first."""
    for name, label in _CHOICES.items():
        values = list(dict.fromkeys(row[name] for row in rows))
        if len(values) > 1:
            yield Selector(name, label, [("worst", "worst case of all"), *((each, each) for each in values)])
    epsilons = _epsilons(rows)
    if len(epsilons) > 1:
        yield Selector("eps", "Claimed ε", [(json.dumps(each), f"{each:g}") for each in epsilons])
    if rows:
        yield Selector("observer", "The server sees", [(view, SEES[view]) for view in _proven_views(rows)])


# --- what is folded --------------------------------------------------------------------------------


def _folds(report: CompareReport, grid: str, cells: Mapping[str, CellPlan]) -> Iterator[Fold]:
    codes = sorted({row["code"] for row in report.warnings} & WARNINGS.keys())
    yield _every(
        f"Warnings: {join_names(codes)}" if codes else "Warnings",
        report.warnings,
        "name code warning",
        texts=[f"{code}: {WARNINGS[code].title}. {WARNINGS[code].text}" for code in codes],
    )
    if report.claims:
        yield Fold(title="Claims, checked", tables=[claims_table(report.claims).on("page")])
    metrics = "auc guess guess_auc above_guess grades_auc accuracy precision recall f1 exact lists"
    yield _every("Every attack", report.attacks, f"{_PLACE} method baseline {metrics}")
    worlds = report.world_tables
    yield Fold(
        title="Every result",
        note=counted(len(report.results), "row"),
        texts=[f"{world.title}: {line}" for world in worlds for line in (*world.no_better, *world.dominated)],
        tables=[table.on("page") for world in worlds for table in (world.leaks(), world.costs())],
    )
    best = {_setting(row): row["attack"] for row in report.results}
    hit = [row for row in report.groups if row["method"] == best[_setting(row)]]
    yield _every("Groups of clients: how they are served", report.served, f"{_PLACE} group online_mean")
    yield _every("Groups of clients: what the best attack reads", hit, f"{_PLACE} group auc")
    if report.curves:
        yield Fold(title="Learning curves", note="means over runs", curves=True)
    yield _every("Attacks that could not run", report.refused, f"{_PLACE} method reason")
    yield _every("Left out", report.left_out, "learner defense why")
    yield _every("Cells that failed", report.failed, "defense learner click_model run why")
    yield _every("Not done yet", report.unfinished, "name kind click_model scenario done cells")
    if report.dataset:
        data = f"{report.dataset['source']}: {report.dataset['features']} features"
        normalised = [f"{data}, {report.dataset['normalised']}"]
        yield _every("Data", report.dataset["folds"], "fold fingerprint train vali test", texts=normalised)
    yield _every(
        "Versions, and how to repeat it",
        [{"package": name, "version": text} for name, text in versions().items()],
        "package version",
        texts=[
            f"Seed {_seeds(cells)}; run i is repetition i of it. Commands are for the folder of the "
            "comparison; the same seed gives the same numbers. Versions are those here."
        ],
        code=[f"foltr-audit compare --config {GRID} --out ANOTHER-FOLDER", grid.rstrip("\n")],
    )
    commands = [
        {
            "cell": cell.name,
            "command": f"foltr-audit {cell.kind} --config {CELLS}/{name}/{SPEC}",
        }
        for name, cell in cells.items()
    ]
    yield _every("One cell on its own", commands, "cell command")


def _seeds(cells: Mapping[str, CellPlan]) -> str:
    return ", ".join(map(str, sorted({cell.spec.seed for cell in cells.values()})))


def _setting(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("data", "scenario", "click_model", "learner", "name"))


def _every(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    names: str,
    *,
    texts: Sequence[str] = (),
    code: Sequence[str] = (),
) -> Fold:
    """Some columns of rows, without those that only say that all rows are of one setting."""
    if not rows:
        return Fold(title=title)
    shared = {name for name in _PLACE.split() if len({row.get(name) for row in rows}) == 1}
    first, *others = names.split()
    columns = [
        Column(_HEADERS.get(name, name.replace("_", " ")), name)
        for name in (first, *(name for name in others if name not in shared))
    ]
    more = f" (the first {MOST_ROWS:,}; all in results.json)" if len(rows) > MOST_ROWS else ""
    return Fold(
        title=title,
        note=f"{len(rows):,} row{'s' * (len(rows) != 1)}{more}",
        texts=texts,
        code=code,
        tables=[make_table("", columns, rows[:MOST_ROWS])],
    )


# --- HTML ------------------------------------------------------------------------------------------


def html_page(page: Page) -> str:
    """The text of the HTML page; the same page gives the same bytes.

    The template escapes every text. Script and style are files of ours, and the data are JSON in which `<`
    is escaped, so that nothing that users named can end their element.
    """
    import jinja2

    folder = files("foltr_audit.report") / "templates"
    script, style, template = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.js", "page.css", "page.html.j2")
    )
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template).render(
        page=page,
        script=script,
        style=style,
        data=json_text(page.data).replace("<", "\\u003c"),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _hash(text: str) -> str:
    """The source of a content security policy that allows this text alone."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
