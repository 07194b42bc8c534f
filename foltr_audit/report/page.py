"""The page of a comparison.

It is one file without network access: its script and style are named by their hashes in a strict
content security policy, and every text is escaped. Without scripts it shows the table of the worst case.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import Estimate
from foltr_audit.core.warning_kinds import WARNINGS
from foltr_audit.errors import PluginError
from foltr_audit.experiments.comparison.folder import CELLS, GRID
from foltr_audit.experiments.decide import BEATS, MOST_LOSS, Judgement, LeakKind
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.experiments.versions import versions
from foltr_audit.privacy.observer_views import SEES, VIEWS, sees_lists, with_article
from foltr_audit.report.compare_tables import (
    above_mark,
    auc_cell,
    byte_count,
    claims_table,
    difference_cell,
    epsilons_of,
    guess_cell,
    verdict_words,
)
from foltr_audit.report.decision import MARKS, MOST_SENTENCES, decision_sentences
from foltr_audit.report.documents import Row
from foltr_audit.report.settings import GRADES, data_title, protected
from foltr_audit.report.table import (
    EMPTY,
    Accessor,
    Cell,
    Column,
    Line,
    Mark,
    Table,
    bound_text,
    capitalised,
    columns_of,
    counted,
    estimate_cell,
    known_or,
    make_table,
)
from foltr_audit.utils.formatting import join_names, json_ready, short

if TYPE_CHECKING:
    from foltr_audit.report.compare import CompareReport

# --- The table of the page of a comparison, for every choice of its reader -------------------------
# A line is made of parts, each of which depends on one thing: on what one observer can do, or on the ranking.
# Of several settings each part is that of its own worst case. The script of the page picks parts of other
# settings by the same rule, so it formats no number of the table.

SIGNS: Mapping[Mark, str] = {"good": "✔ ", "warn": "! ", "bad": "✖ "}
"""What stands before a verdict, by its mark."""

WORST = "worst"
"""The choice of the worst case of all."""

CHOICES = {"click_model": "Clicks", "scenario": "Clients", "data": "Data", "learner": "Learner"}
"""Labels of choices by the column that they are about."""


class Part(NamedTuple):
    """Neighbouring cells of a line; of several settings the part with the largest `badness` is shown.

    `drawn` is what the chart and its tips need of it.
    """

    badness: float
    cells: tuple[Cell, ...]
    drawn: Mapping[str, Any] = {}


class PageRow(NamedTuple):
    """The parts of a result by name, and the place that it has in each choice; None fits every choice."""

    defense: str
    places: Mapping[str, str | None]
    parts: Mapping[str, Part]


def page_row(row: Row, audited: Sequence[str], observers: Sequence[str]) -> PageRow:
    """The parts of a result, for views that were audited and for observers."""
    attacked = {each["view"]: each for each in row["attacked"]}
    ceilings = {each["view"]: each["auc"] for each in row["ceilings"]}
    where = {"where": clicks_of(row)}
    proven = {view: row.get(f"eps_proven_{view}") for view in audited}
    parts = {
        "name": Part(0.0, (Cell(short_name(row), plain_words(row)),)),
        **{name: _verdict(row[name]) for name in ("verdict", "verdict_lists")},
        **{
            f"proven {view}": Part(min(known_or(eps, -1.0), 1e9), (Cell(bound_text(eps)),))
            for view, eps in proven.items()
        },
        **{f"attack {view}": _attack(attacked.get(view), ceilings.get(view), where) for view in observers},
        "quality": _quality(row, where),
        "bytes": Part(known_or(row["bytes_per_client"], -1.0), (Cell(byte_count(row)),)),
    }
    places = {name: row[name] for name in CHOICES} | {
        "eps": None if row["eps"] is None else f"{row['eps']:g}"
    }
    return PageRow(row["alternative"], places, parts)


def part_names(audited: Sequence[str], view: str) -> list[str]:
    """The parts of a line, for one observer: its verdict, its attack, and what is proven of each."""
    verdict = "verdict_lists" if sees_lists(view) else "verdict"
    return ["name", verdict, *(f"proven {each}" for each in audited), f"attack {view}", "quality", "bytes"]


def fits(row: PageRow, chosen: Mapping[str, str]) -> bool:
    return all(
        place is None or chosen.get(name, WORST) in (WORST, place) for name, place in row.places.items()
    )


def clicks_of(row: Row) -> str:
    return f"{row['click_model']} clicks"


def short_name(row: Row) -> str:
    """The name of a defense without its epsilon, of which the page shows one at a time."""
    name = row["name"] if row["eps"] is None else row["name"].removesuffix(f", eps {row['eps']:g}")
    return str(name).replace("+", " + ")


def plain_words(row: Row) -> str:
    """What the defenses of a chain do, by their docstrings; empty where one is not installed here.

    Of several, those that only prepare messages for others are left out.
    """
    try:
        links = parse_chain([row["defense"]])
    except PluginError:
        return ""
    several = [link for link in links if "step" not in link.possible_stages()] or links
    lines = [(inspect.getdoc(type(link)) or "").split("\n")[0].replace("`", "") for link in several]
    clauses = [re.split(r"[;:]|\.$", line)[0] for line in lines if line]
    return "; ".join([*clauses[:1], *(clause[:1].lower() + clause[1:] for clause in clauses[1:])])


def _verdict(verdict: Judgement) -> Part:
    mark = MARKS[verdict]
    return Part(get_args(Judgement).index(verdict), (Cell(SIGNS.get(mark, "") + verdict, mark=mark),))


def _attack(found: Row | None, ceiling: float | None, where: Mapping[str, str]) -> Part:
    """What the best attack of one observer finds, and the ceiling of the same observer."""
    if found is None:
        return Part(-3.0, (Cell("-", "not attacked"), EMPTY, EMPTY, EMPTY))
    above = difference_cell(found.estimate("above_guess"))._replace(mark=above_mark(found))
    cells = auc_cell(found), guess_cell(found), above, GRADES.cell(found)
    proof = (
        "not computed" if ceiling is None else "nothing" if ceiling >= 1 else f"AUC at most {short(ceiling)}"
    )
    drawn = {
        "auc": _drawn(found.estimate("auc")),
        "guess": found["baseline_auc"],
        "cap": ceiling,
        "by": found["attack"],
        "proof": proof,
    }
    return Part(known_or(found.number("above_guess"), -2.0), cells, {**where, **drawn})


def _quality(row: Row, where: Mapping[str, str]) -> Part:
    ndcg, difference = row.estimate("ndcg@10"), row.estimate("ndcg@10_difference")
    return Part(
        loss_of(row), (estimate_cell(ndcg), difference_cell(difference)), {**where, "ndcg": _drawn(ndcg)}
    )


def loss_of(row: Row) -> float:
    """How much nDCG@10 is lost to no defense; or how low it is, where that is not known."""
    difference = row.estimate("ndcg@10_difference")
    return known_or(-(difference if difference.known else row.estimate("ndcg@10")).value, -9.0)


def _drawn(estimate: Estimate) -> list[float] | None:
    """A value and the ends of its interval, in the digits that a picture needs."""
    if not estimate.known:
        return None
    return [round(value, 4) for value in (estimate.value, *(estimate.ci95 or (estimate.value,) * 2))]


def defense_table(rows: Sequence[PageRow], audited: Sequence[str], view: str) -> Table:
    """Each defense in the worst case of some settings, for one observer."""
    of_defense: dict[str, list[PageRow]] = {}
    for row in rows:
        of_defense.setdefault(row.defense, []).append(row)
    lines = []
    for same in of_defense.values():
        each = [[row.parts[name] for row in same] for name in part_names(audited, view)]
        worst = [max(parts, key=attrgetter("badness")) for parts in each]
        lines.append(Line(tuple(cell for part in worst for cell in part.cells)))
    return Table(
        "",
        [Column(head, "", align="number" if at > 1 else "name") for at, head in enumerate(heads(audited))],
        lines,
    )


def head_groups(audited: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The headers of the table in two levels; a column that stands alone has no second one."""
    groups = [
        ("defense", [""]),
        ("verdict", [""]),
        ("proven ε of one search, if the server sees", [SEES[view] for view in audited]),
        ("AUC", ["best attack", "guess without message", "attack adds", "guess with grades"]),
        ("nDCG@10", ["value", "to no defense"]),
        ("bytes a client and round", [""]),
    ]
    return [(group, columns) for group, columns in groups if columns]


def heads(audited: Sequence[str]) -> list[str]:
    """The headers in one level."""
    return [
        f"{group}: {text}" if text else group for group, columns in head_groups(audited) for text in columns
    ]


def framed_column(audited: Sequence[str], view: str) -> int:
    """The column with what is proven of an observer; -1 if it was not audited."""
    return 2 + audited.index(view) if view in audited else -1


# --- The page of a comparison ----------------------------------------------------------------------

MOST_ROWS = 3000
"""Rows of a folded table; more are in JSON only."""

_HOW_TO_READ = (
    "Proven ε: of one search (interaction) by accounting; the column of the chosen observer is framed.",
    "AUC: of a clicked against an unclicked document of the same list; 1 reads every click, .5 is a coin "
    "flip. The guess knows neither what the server sees nor grades: it guesses by position or at random. "
    "One that knows the grades of documents is better, and still reads nothing.",
    "Worst case: each column has its own: the attack that adds most to the guess, the largest proven ε and "
    "the largest loss of nDCG@10, maybe of different clicks.",
    "Chart: the thick stroke is the largest AUC that the proof leaves to any attack of the chosen observer "
    "on one search, among documents that are equally likely clicked. Marks at one point stand side by side, "
    "each with a line to its values.",
)
_PLACE = "name click_model learner scenario"
_HEADERS = {
    "name": "defense",
    "online_mean": "online nDCG@10",
    "baseline": "is a guess",
    "guess": "best guess",
    "view": "server sees",
}
_OF: Mapping[str, Accessor] = {
    "view": lambda row: SEES.get(row["view"], row["view"]),
    **{each.header: each.of for each in columns_of("accuracy:3; precision:3; recall:3; f1:3; exact:3")},
}
"""What cells show where that is not the whole value: intervals of minor metrics are in JSON only."""

_WHERE = ("scenario", "learner", "data")
"""What else names a world where it differs, after its clicks."""

_PANELS = {OFFLINE_NDCG: "offline nDCG@10 of the global model", ONLINE_NDCG: "online nDCG@10 of shown lists"}


class Selector(NamedTuple):
    """A choice: its name, its label, its options with their texts, and the one that is chosen first."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]
    chosen: str


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A part of the page that is folded; its tables are shown by the script."""

    title: str
    note: str = ""
    texts: Sequence[str] = ()
    code: Sequence[str] = ()
    curves: bool = False
    tables: Sequence[Table] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page says, before it has a form; `audited` and `observers` are views."""

    headline: str
    lead: Sequence[str]
    tiles: Sequence[tuple[str, Cell]]
    notices: Sequence[str]
    defenses: Sequence[Table]
    selectors: Sequence[Selector]
    folds: Sequence[Fold]
    made_by: str
    rows: Sequence[PageRow]
    audited: Sequence[str]
    observers: Sequence[str]
    curves: Sequence[Row]

    @property
    def names(self) -> list[str]:
        """The defenses."""
        return list(dict.fromkeys(row.defense for row in self.rows))


def page_of(report: CompareReport) -> Page:
    """What the page of a comparison says."""
    decision, data, results = report.decision, report.dataset, _results(report)
    said = [] if decision is None else decision_sentences(decision)
    use = [row for row in results if row["verdict"] == "recommended"]
    headline, _, rest = said[0].partition(". ") if said else ("No cell is done yet", "", "")
    audited = [view for view in VIEWS if any(f"eps_proven_{view}" in row for row in results)]
    observers = _observers(results, audited)
    rows = [page_row(row, audited, observers) for row in results]
    selectors = [*_selectors(results, observers)]
    first = {selector.name: selector.chosen for selector in selectors}
    folds = [Fold(title="Why this one" if use else "Why none", texts=said), _how_to_read(report, results)]
    plain = [f"{capitalised(words)}." for words in dict.fromkeys(plain_words(row) for row in use) if words]
    synthetic = bool(data) and data["synthetic"]
    return Page(
        headline=headline.rstrip("."),
        lead=[*plain, *([capitalised(rest)] if rest else [])],
        tiles=[*_tiles(results, use, observers[0])] if use else [],
        notices=[
            *report.progress,
            *report.server,
            *dict.fromkeys(world.no_sum for world in report.world_tables if world.no_sum),
            *said[MOST_SENTENCES if use else 1 :],
            *(["The data are synthetic: what holds here need not hold for real users."] if synthetic else []),
        ],
        defenses=[defense_table([row for row in rows if fits(row, first)], audited, observers[0])]
        if rows
        else [],
        selectors=selectors,
        folds=[fold for fold in (*folds, *_folds(report)) if fold.texts or fold.curves or fold.tables],
        made_by=f"foltr-audit {versions()['foltr-audit']}, {data_title(data) if data else 'no data'}, "
        f"seed {_seeds(report)}",
        rows=rows,
        audited=audited,
        observers=observers,
        curves=[row for row in report.curves if row["eps"] in (None, *_epsilons(results)[:1])],
    )


# --- rows ------------------------------------------------------------------------------------------


def _results(report: CompareReport) -> list[Row]:
    """The results, each with its verdict where the server sees no lists, and where it does."""
    decision = report.decision
    if decision is None:
        return []
    return [
        row.with_values(verdict=decision.judgement(row), verdict_lists=decision.judgement(row, lists=True))
        for row in report.results
    ]


def _observers(results: Sequence[Row], audited: Sequence[str]) -> list[str]:
    """The views that were attacked or audited; the first one is attacked, if any is."""
    attacked = {each["view"] for row in results for each in row["attacked"]}
    views = [view for view in VIEWS if view in attacked or view in audited] or [next(iter(VIEWS))]
    return sorted(views, key=lambda view: view not in attacked and bool(attacked))


# --- above the folds -------------------------------------------------------------------------------


def _tiles(results: Sequence[Row], use: Sequence[Row], view: str) -> Iterator[tuple[str, Cell]]:
    """Four numbers of the recommended defense in words, for the first observer."""
    leaks = [each for row in use for each in row["attacked"] if each["view"] == view]
    leak = max(leaks, key=lambda each: known_or(each.number("above_guess"), -2.0), default=None)
    yield "Best attack, AUC", Cell("-", "not attacked", "warn") if leak is None else _attack_tile(leak)
    proven = max(use, key=lambda row: known_or(row.get(f"eps_proven_{view}"), -1.0))
    yield "Proven for one search", _proven_tile(proven, view)
    cost = max(use, key=lambda row: loss_of(row))
    size = cost.number("ndcg@10_difference")
    change = f"{short(abs(size))} {'more' if size > 0 else 'less'} than without defense"
    worst = f" in the worst case ({clicks_of(cost)})" if len(use) > 1 else ""
    yield (
        "Ranking quality, nDCG@10",
        Cell(short(cost.number("ndcg@10")), change + worst, "good" if -size <= MOST_LOSS else "warn"),
    )
    sent = max(use, key=lambda row: known_or(row["bytes_per_client"], -1.0))
    bare = [row for row in results if (row["defense"], row["learner"]) == ("none", sent["learner"])]
    least = max((known_or(row["bytes_per_client"], 0.0) for row in bare), default=0.0)
    times = sent.number("bytes_per_client") / least if least else math.nan
    more = (
        ""
        if math.isnan(times)
        else f"{times:.0f} times those of no defense"
        if times >= 1.5
        else "as without a defense"
    )
    yield "Bytes a client and round", Cell(byte_count(sent), more, "warn" if times >= 1.5 else "good")


def _attack_tile(leak: Row) -> Cell:
    """The best attack of one observer beside the guess, in words."""
    known = leak["baseline_auc"] is not None
    guess = f"a guess without {with_article(leak['sees'])}: {short(leak['baseline_auc'])}; " if known else ""
    kind: LeakKind | None = leak["shown"]
    if kind == "no sum":
        return auc_cell(leak)._replace(
            below="no round opened a sum, so there was nothing to read", mark="good"
        )
    better = "it is not known whether the attack is better"
    if kind in (*BEATS, "guess"):
        better = "so the attack reads clicks" if kind in BEATS else "so the attack is no better"
    return auc_cell(leak)._replace(below=f"{guess}{better}", mark=above_mark(leak) or "warn")


def _proven_tile(row: Row, view: str) -> Cell:
    """What is proven of one search, and below it of all rounds of a run."""
    eps = row.get(f"eps_proven_{view}")
    if eps is None:
        return Cell("-", "not audited", "warn")
    if math.isinf(eps):
        return Cell("nothing", f"if the server sees {with_article(SEES[view])}", "warn")
    run, rounds = row.get(f"run_eps_{view}"), row.get(f"run_rounds_{view}")
    who = protected(row.get(f"run_unit_{view}"))
    of_all = "nothing" if run is None or math.isinf(run) else f"ε {bound_text(run)}"
    return Cell(
        f"ε {bound_text(eps)}",
        "" if rounds is None else f"{of_all} for {who} in all {counted(rounds, 'round')}",
        "good",
    )


def _epsilons(rows: Sequence[Row]) -> list[float]:
    """Those that defenses were made for, first that of the recommended one, or else the smallest."""
    chosen = [row["eps"] for row in rows if row["verdict"] == "recommended"]
    return sorted(epsilons_of(rows), key=lambda eps: eps not in chosen)


def _selectors(rows: Sequence[Row], observers: Sequence[str]) -> Iterator[Selector]:
    """A choice for everything that rows may differ in; the worst case of several comes first.

    Of several learners the one of the recommended defense is chosen, since its verdict is not of the others.
    """
    if not rows:
        return
    use = [row["learner"] for row in rows if row["verdict"] == "recommended"]
    for name, label in CHOICES.items():
        options = [(value, value) for value in dict.fromkeys(str(row[name]) for row in rows)]
        if len(options) > 1:
            options = [(WORST, "worst case of all"), *options]
        yield Selector(name, label, options, use[0] if use and name == "learner" else options[0][0])
    epsilons = [(f"{eps:g}", f"{eps:g}") for eps in _epsilons(rows)]
    if epsilons:
        yield Selector("eps", "Claimed ε", epsilons, epsilons[0][0])
    yield Selector("observer", "The server sees", [(view, SEES[view]) for view in observers], observers[0])


def _how_to_read(report: CompareReport, results: Sequence[Row]) -> Fold:
    if report.decision is None:
        return Fold(title="")
    lists = [each["lists"] for row in results for each in row["attacked"] if each["lists"] is not None]
    span = " to ".join(f"{count:,}" for count in sorted({min(lists), max(lists)})) if lists else "no"
    return Fold(
        title="How to read this",
        texts=[
            *_HOW_TO_READ,
            f"{capitalised(verdict_words(report.decision, results))}.",
            f"Attacks are judged on {span} lists with a click for each defense.",
        ],
    )


# --- what is folded --------------------------------------------------------------------------------


def _folds(report: CompareReport) -> Iterator[Fold]:
    codes = sorted({row["code"] for row in report.warnings} & WARNINGS.keys())
    yield _every(
        f"Warnings: {join_names(codes)}" if codes else "Warnings",
        report.warnings,
        "name code warning",
        texts=[f"{code}: {WARNINGS[code].title}. {WARNINGS[code].text}" for code in codes],
    )
    if report.claims:
        yield Fold(
            title="Claims, checked",
            note=counted(len(report.claims), "row"),
            tables=[claims_table(report.claims).on("page")],
        )
    metrics = "view auc guess guess_auc above_guess grades_auc accuracy precision recall f1 exact lists"
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
    yield _every("Attacks that could not run", report.refused, f"{_PLACE} view method reason")
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
            f"Seed {_seeds(report)}; run i is repetition i of it. Commands are for the folder of the "
            "comparison; the same seed gives the same numbers. Versions are those here."
        ],
        code=[f"foltr-audit compare --config {GRID} --out ANOTHER-FOLDER", report.grid.rstrip("\n")],
    )
    commands = [
        {"cell": cell.name, "command": f"foltr-audit {cell.command} --config {CELLS}/{name}/{SPEC}"}
        for name, cell in report.plans.items()
    ]
    yield _every("One cell on its own", commands, "cell command")


def _seeds(report: CompareReport) -> str:
    return ", ".join(map(str, sorted({cell.spec.seed for cell in report.plans.values()})))


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
    shared = {name for name in (*_PLACE.split(), "view") if len({row.get(name) for row in rows}) == 1}
    first, *others = names.split()
    columns = [
        Column(_HEADERS.get(name, name.replace("_", " ")), _OF.get(name, name))
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
    data = json.dumps(json_ready(_data(page)), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return environment.from_string(template).render(
        page=page,
        groups=head_groups(page.audited),
        framed=framed_column(page.audited, page.observers[0]),
        letters=_letters(page.names),
        script=script,
        style=style,
        data=data.replace("<", "\\u003c"),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _letters(names: Sequence[str]) -> list[str]:
    """A letter for each defense, which stands for it where its name is too long."""
    return [string.ascii_uppercase[n % 26] + ("" if n < 26 else str(n // 26)) for n in range(len(names))]


class _Texts:
    """Cells as numbers of their texts, since most texts stand often; the most frequent have small numbers."""

    def __init__(self, page: Page) -> None:
        cells = [cell for row in page.rows for part in row.parts.values() for cell in part.cells]
        cells += [cell for table in _tables(page) for line in table.lines for cell in line.cells]
        counts = Counter(text for cell in cells for text in cell)
        self.all = [text for text, _ in counts.most_common()]
        self._places = {text: place for place, text in enumerate(self.all)}

    def cells(self, cells: Iterable[Cell]) -> list[int | list[int]]:
        """Each as the number of its text, or a list with those of what is below it and its mark too."""
        return [
            [self._places[text] for text in (cell if cell.mark else cell[:2])]
            if cell.below or cell.mark
            else self._places[cell.text]
            for cell in cells
        ]


def _tables(page: Page) -> list[Table]:
    """The folded tables."""
    return [table for fold in page.folds for table in fold.tables]


def _data(page: Page) -> dict[str, object]:
    """What the script shows."""
    texts = _Texts(page)
    differing = [name for name in _WHERE if len({row[name] for row in page.curves}) > 1]
    parts = [*page.rows[0].parts] if page.rows else []
    names = page.names
    return {
        "texts": texts.all,
        "defenses": [*zip(names, _letters(names), strict=True)],
        "choices": [*page.rows[0].places] if page.rows else [],
        "rows": [
            [
                names.index(row.defense),
                [*row.places.values()],
                [[part.badness, texts.cells(part.cells), part.drawn] for part in row.parts.values()],
            ]
            for row in page.rows
        ],
        "observers": {
            view: {
                "sees": SEES[view],
                "parts": [parts.index(name) for name in part_names(page.audited, view) if name in parts],
                "framed": framed_column(page.audited, view),
            }
            for view in page.observers
        },
        "heads": heads(page.audited),
        "panels": _PANELS,
        "curves": [
            {
                "defense": names.index(row["alternative"]),
                "name": short_name(row),
                "where": ", ".join([clicks_of(row), *(row[name] for name in differing)]),
                "round": row["round"],
                **{
                    panel: [None if value is None else round(value, 4) for value in row[panel]]
                    for panel in _PANELS
                },
            }
            for row in page.curves
        ],
        "tables": [
            [[column.header for column in table.columns], [texts.cells(line.cells) for line in table.lines]]
            for table in _tables(page)
        ],
    }


def _hash(text: str) -> str:
    """The source of a content security policy that allows this text alone."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
