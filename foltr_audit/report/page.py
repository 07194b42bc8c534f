"""The page of a comparison, and the same as Markdown: queries on the document that `compare --json` prints.

The page is one file without network access: its script and style are named by their hashes in a strict
content security policy, and every text is escaped. Without scripts it shows the table of the worst case.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, NamedTuple

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.warning_kinds import WARNINGS
from foltr_audit.experiments.comparison.folder import CELLS, GRID, ComparisonFolder
from foltr_audit.experiments.decide import MOST_AUC, MOST_LOSS
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.experiments.versions import versions
from foltr_audit.judge.scoring import KNOWS_GRADES
from foltr_audit.privacy.observer_views import SEES, VIEWS, attacked_view
from foltr_audit.report.compare_tables import NO_SUM
from foltr_audit.report.decision import cheating_server
from foltr_audit.report.table import (
    UNKNOWN_TEXT,
    bound_text,
    escape_markdown,
    interval_text,
    markdown_lines,
    short_method,
    shortened,
)
from foltr_audit.utils.formatting import join_names, json_text, short

Table = Mapping[str, Any]

MOST_ROWS = 1000
"""Rows of a folded table; more are in JSON only."""

_MARKS = {
    "recommended": ("good", "✔"),
    "holds": ("good", "✔"),
    "no proof": ("warn", "?"),
    "no bound": ("warn", "?"),
    "costs too much": ("warn", "▼"),
    "too few lists": ("warn", "?"),
    "leaks": ("bad", "✖"),
    "false claim": ("bad", "✖"),
}
"""How a verdict is highlighted, and its sign."""

_CHART = (
    "Further left: the best attack reads less. Further up: the ranker is better. Lines are 95 % intervals. "
    "A thick stroke is the largest AUC that the proof leaves to any attack on one search, among documents "
    "that are equally likely clicked; without one nothing is proven. A ring is the best guess without "
    "message and grades: a mark left of its ring adds nothing to it. Hollow marks: attacked as another "
    "observer. Point at a mark, or reach it with Tab, for its values."
)
_TABLE = (
    "ε: proven for one search (interaction) by accounting; smaller is more private, ∞: nothing is proven, "
    "-: not audited. AUC: 1 reads every click. In brackets: 95 % intervals.",
    "Verdicts: leaks: the best attack is shown to beat every guess without message and grades; too few "
    f"lists: its interval does not end below {MOST_AUC:g}; costs too much: a significant loss of more than "
    f"{MOST_LOSS:g} of nDCG@10; no proof: no attack succeeds, but the claim is not proven.",
)


class Tile(NamedTuple):
    """A number that a reader came for, how it is marked, and what it is compared with."""

    name: str
    value: str
    note: str
    mark: str


class Selector(NamedTuple):
    """A choice: its name, its label, and its options with their texts."""

    name: str
    label: str
    options: Sequence[tuple[str, str]]


class Curve(NamedTuple):
    """A learning curve: lines in a box of 400 by 200, and the same in words."""

    title: str
    words: str
    ticks: Sequence[tuple[float, str]]
    lines: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A part of the page that is folded: sentences, code, curves, and a table."""

    title: str
    note: str = ""
    texts: Sequence[str] = ()
    code: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    @property
    def holds_anything(self) -> bool:
        return any((self.texts, self.code, self.curves, self.rows))


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page says, before it has a form."""

    kind: str = "Privacy audit of federated online learning to rank"
    headline: str
    lead: Sequence[str]
    tiles: Sequence[Tile]
    notices: Sequence[str]
    defenses: Fold
    selectors: Sequence[Selector]
    chart_note: str = _CHART
    folds: Sequence[Fold]
    made_by: str
    data: Mapping[str, Any] = field(default_factory=dict)


# --- where its numbers come from -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to reproduce a comparison.

    Attributes:
        grid: its grid, TOML.
        seeds: of its cells.
        versions: of packages here, where the page is made.
        cells: how each cell is run on its own: its name, and the command inside the comparison's folder.
    """

    grid: str
    seeds: Sequence[int]
    versions: Mapping[str, str]
    cells: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, folder: ComparisonFolder) -> Provenance:
        """The provenance of a folder.

        Raises:
            TraceError: it is damaged.
        """
        cells = folder.cells()
        return cls(
            grid=folder.grid.public.toml,
            seeds=sorted({cell.spec.seed for cell in cells}),
            versions=versions(),
            cells=[
                (cell.name, f"foltr-audit {cell.kind} --config {CELLS}/{cell.spec.hash[:12]}/{SPEC}")
                for cell in cells
            ],
        )


# --- the query -------------------------------------------------------------------------------------


def page_of(compared: Table, provenance: Provenance) -> Page:
    """What the page of a comparison says.

    Args:
        compared: the document of `compare --json`, with its decision.
        provenance: how to reproduce it.
    """
    rows = chart_rows(compared)
    decision = compared.get("decision") or {}
    sentences = list(decision.get("sentences", ()))
    chosen = decision.get("use")
    use = f"Use {chosen}" if chosen else "Use none of these defenses" if rows else "No cell is done yet"
    dataset = compared["dataset"] or {}
    of_data = (
        f"{'synthetic data' if dataset.get('synthetic') else 'data'} {dataset.get('source', 'none yet')}"
    )
    seeds = ", ".join(map(str, provenance.seeds))
    return Page(
        headline=use,
        lead=[_rest(text, use) for text in sentences[:2] if text.rstrip(".") != use],
        tiles=list(_tiles(chosen, rows)) if chosen else [],
        notices=[*_progress(compared), *_server(compared), *sentences[2:], *_synthetic(dataset)],
        defenses=_defenses(rows),
        selectors=list(_selectors(rows)),
        folds=[
            each
            for each in _folds(compared, provenance)
            if each.texts or each.rows or each.code or each.curves
        ],
        made_by=f"foltr-audit {provenance.versions['foltr-audit']}, {of_data}, seed {seeds}",
        data=_script_data(rows),
    )


def _rest(text: str, headline: str) -> str:
    """A sentence below the headline, without what that says."""
    rest = text.removeprefix(headline).lstrip(":,. ")
    return rest[:1].upper() + rest[1:]


def chart_rows(compared: Table) -> list[dict[str, Any]]:
    """One row for each setting: what is proven, the best attack and the best guess, quality and cost."""
    decision = compared.get("decision") or {}
    verdicts = {(each["learner"], each["defense"]): each["verdict"] for each in decision.get("verdicts", ())}
    spec = compared["config"].get("spec", {})
    protocol = AttackSpec.model_validate(spec.get("attack") or {})
    attacked = attacked_view(protocol.view, protocol.hide)
    attacks_on: dict[tuple[str, ...], list[Table]] = {}
    for attack in compared["attacks"]:
        attacks_on.setdefault(_setting(attack), []).append(attack)
    return [
        _chart_row(row, verdicts[row["learner"], row["name"]], attacked, attacks_on.get(_setting(row), []))
        for row in compared["results"]
    ]


def _chart_row(row: Table, verdict: str, attacked: str, attacks: Sequence[Table]) -> dict[str, Any]:
    guesses = [each for each in attacks if each["baseline"] and each["auc"] is not None]
    by_position = [each for each in guesses if each["method"] != KNOWS_GRADES]
    guess = max(by_position, key=lambda each: float(each["auc"]), default=None)
    knowing = next((each["auc"] for each in guesses if each["method"] == KNOWS_GRADES), None)
    difference, ends = row["ndcg@10_difference"], row["ndcg@10_difference_ci95"]
    views = [view for view in VIEWS if f"eps_proven_{view}" in row]
    return {
        "defense": row["alternative"],
        "name": row["name"],
        "eps": row["eps"],
        "clicks": row["click_model"],
        "scenario": row["scenario"],
        "data": row["data"],
        "learner": row["learner"],
        "verdict": verdict,
        "proven": {view: row[f"eps_proven_{view}"] for view in views},
        "run": {view: row[f"run_eps_{view}"] for view in views},
        "rounds": next((row[f"run_rounds_{view}"] for view in views), None),
        "ceiling": {each["view"]: each["auc"] for each in row["ceilings"]},
        "attacked": attacked,
        "auc": row["auc"],
        "auc_ci": row["auc_ci95"],
        "no_sum": row["auc"] is None and row["runs_without_sum"] > 0,
        "attack": row["attack"],
        "guess": None if guess is None else guess["auc"],
        "guess_by": "no guess" if guess is None else short_method(guess["method"]),
        "knowing": knowing,
        "ndcg": row["ndcg@10"],
        "ndcg_ci": row["ndcg@10_ci95"],
        "loss": None if difference is None else -difference,
        "loss_ci": None if ends is None else [-ends[1], -ends[0]],
        "bytes": row["bytes_per_client"],
        "lists": row["lists"],
        "cost_clicks": row["click_model"],
    }


def _setting(row: Table) -> tuple[str, ...]:
    return tuple(row[name] for name in ("data", "scenario", "click_model", "learner", "name"))


def worst_cases(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each defense at the smallest epsilon: its highest AUC and its largest loss, maybe of other clicks."""
    least = min((row["eps"] for row in rows if row["eps"] is not None), default=None)
    some = [row for row in rows if row["eps"] in (None, least)]
    cases = []
    for name in dict.fromkeys(row["defense"] for row in some):
        same = [row for row in some if row["defense"] == name]
        leak = max(same, key=lambda row: -1.0 if row["auc"] is None else float(row["auc"]))
        cost = max(same, key=_cost)
        cases.append({**leak, **{key: cost[key] for key in ("ndcg", "ndcg_ci", "loss", "loss_ci")}})
    return [{**case, "cost_clicks": case["clicks"]} for case in cases]


def _cost(row: Table) -> float:
    return float(row["loss"]) if row["loss"] is not None else -float(row["ndcg"] or 0.0)


def audited_views(rows: Sequence[Table]) -> list[str]:
    return [view for view in VIEWS if any(view in row["proven"] for row in rows)]


def _tiles(chosen: str, rows: Sequence[dict[str, Any]]) -> Iterator[Tile]:
    mine = [row for row in rows if row["name"] == chosen]
    leak = max(mine, key=lambda row: -1.0 if row["auc"] is None else float(row["auc"]))
    cost = max(mine, key=_cost)
    ends = leak["auc_ci"]
    beaten = ends is not None and leak["guess"] is not None and ends[0] > leak["guess"]
    guess = f"the best guess without message and grades: {short(leak['guess'])} ({leak['guess_by']})"
    shown = f"{_interval(ends)}, {leak['clicks']} clicks; {guess}".lstrip(", ")
    yield Tile("Best attack, AUC", short(leak["auc"]), shown, "bad" if beaten else "good")
    view = next((each for each in leak["proven"]), None)
    if view is None:
        yield Tile("Proven for one search", UNKNOWN_TEXT, "its claim was not audited", "warn")
    else:
        eps, run = leak["proven"][view], leak["run"][view]
        over = f"in all {leak['rounds']} rounds: ε {_bound(run)}; the server sees: {SEES[view]}"
        yield Tile("Proven for one search", f"ε {_bound(eps)}", over, "warn" if eps == "inf" else "good")
    loss = "no run without a defense to compare with"
    if cost["loss"] is not None:
        more = "more" if cost["loss"] < 0 else "less"
        loss = f"{short(abs(cost['loss']))} {more} than without a defense, {cost['clicks']} clicks"
    dear = cost["loss"] is not None and cost["loss"] > MOST_LOSS
    yield Tile("Ranking quality, nDCG@10", short(cost["ndcg"]), loss, "warn" if dear else "good")
    plain = next((row["bytes"] for row in rows if row["defense"] == NO_DEFENSE and row["bytes"]), None)
    times = f"{leak['bytes'] / plain:.3g} times those of no defense" if plain and leak["bytes"] else ""
    sent = UNKNOWN_TEXT if leak["bytes"] is None else f"{leak['bytes']:,.0f}"
    yield Tile("Bytes a client and round", sent, times, "")


def _progress(compared: Table) -> Iterator[str]:
    waiting = sum(each["cells"] - each["done"] for each in compared["unfinished"])
    asked = compared["cells"]["attack"] + compared["cells"]["audit"]
    if waiting:
        names = [
            f"{each['name']} ({each['done']} of {each['cells']} runs)" for each in compared["unfinished"]
        ]
        yield (
            f"Not finished: {asked - waiting} of {asked} cells are done; compare --resume runs the others. "
            f"Waiting: {shortened(names)}."
        )
    if compared["failed"]:
        yield f"Cells that could not be run and are left out: {len(compared['failed'])}."


def _server(compared: Table) -> Iterator[str]:
    server = cheating_server(compared["config"].get("spec", {}).get("train", {}).get("server"))
    if server:
        yield f"All runs have the server {server}, also those without a defense."
    if any(row["runs_without_sum"] for row in compared["results"]):
        yield f"{NO_SUM}: no round opened one, so that attacks had nothing to read."


def _synthetic(dataset: Table) -> list[str]:
    synthetic = dataset.get("synthetic")
    return ["The data are synthetic: what holds here need not hold for real users."] if synthetic else []


def _defenses(rows: Sequence[dict[str, Any]]) -> Fold:
    views = audited_views(rows)
    lists = sorted({row["lists"] for row in rows if row["lists"] is not None})
    span = " to ".join(map(str, dict.fromkeys((lists[0], lists[-1])))) if lists else "no"
    head = ["defense", "verdict", *(f"proven ε, server sees {SEES[view]}" for view in views)]
    head += [
        "AUC of the best attack",
        "AUC of the best guess without message and grades",
        "nDCG@10",
        "difference to no defense",
        "bytes a client and round",
    ]
    return Fold(
        title="The defenses",
        texts=[*_TABLE, f"Attacks are judged on {span} lists with a click for each defense."],
        head=head,
        rows=[
            [
                row["defense"],
                f"{_MARKS.get(row['verdict'], ('', ''))[1]} {row['verdict']}".strip(),
                *(_bound(row["proven"].get(view)) for view in views),
                NO_SUM if row["no_sum"] else _lines(short(row["auc"]), _interval(row["auc_ci"])),
                _lines(short(row["guess"]), row["guess_by"]),
                _lines(short(row["ndcg"]), _interval(row["ndcg_ci"])),
                _lines(_signed(row["loss"]), ""),
                UNKNOWN_TEXT if row["bytes"] is None else f"{row['bytes']:,.0f}",
            ]
            for row in worst_cases(rows)
        ],
    )


def _selectors(rows: Sequence[dict[str, Any]]) -> Iterator[Selector]:
    """A choice for everything that rows differ in; of worlds the worst case comes first."""
    labels = {"clicks": "Clicks", "scenario": "Clients", "data": "Data", "learner": "Learner"}
    for name, label in labels.items():
        values = list(dict.fromkeys(row[name] for row in rows))
        if len(values) > 1:
            yield Selector(name, label, [("worst", "worst case of all"), *((each, each) for each in values)])
    epsilons = sorted({row["eps"] for row in rows if row["eps"] is not None})
    if len(epsilons) > 1:
        yield Selector("eps", "Claimed ε", [(json.dumps(each), f"{each:g}") for each in epsilons])
    if rows:
        yield Selector("observer", "The server sees", [(view, SEES[view]) for view in _proven_views(rows)])


def _proven_views(rows: Sequence[Table]) -> list[str]:
    """The views with proofs, the one that was attacked first."""
    views = [view for view in VIEWS if any(view in row["ceiling"] for row in rows)] or ["individual"]
    return sorted(views, key=lambda view: view not in {row["attacked"] for row in rows})


def _script_data(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rows": rows,
        "defenses": list(dict.fromkeys(row["defense"] for row in rows)),
        "views": _proven_views(rows),
        "audited": audited_views(rows),
        "head": _defenses(rows).head,
        "sees": SEES,
        "marks": _MARKS,
    }


# --- what is folded --------------------------------------------------------------------------------


def _folds(compared: Table, provenance: Provenance) -> Iterator[Fold]:
    yield _warnings(compared["warnings"])
    yield _claims(compared["claims"])
    yield _every(
        "Every attack",
        compared["attacks"],
        {
            **_PLACE,
            "method": lambda row: row["method"] + (" (guess)" if row["baseline"] else ""),
            **{name: _estimate(name) for name in ("auc", "accuracy", "precision", "recall", "f1", "exact")},
            "lists": lambda row: str(row["lists"]),
        },
    )
    yield _every("Every result", compared["results"], _RESULT)
    yield _groups(compared)
    yield Fold(title="Learning curves", note="means over runs", curves=list(_curves(compared["curves"])))
    yield _every("Attacks that could not run", compared["refused"], {**_PLACE, **_texts("method reason")})
    yield _every("Left out", compared["left_out"], _texts("learner defense why"))
    yield _every("Cells that failed", compared["failed"], _texts("defense learner click_model run why"))
    yield _every("Not done yet", compared["unfinished"], _texts("name kind click_model scenario done cells"))
    yield from _made(compared, provenance)


Cells = Mapping[str, Callable[[Table], str]]
"""The cell of a row, by the header of its column."""


def _texts(names: str) -> Cells:
    def text(name: str) -> Callable[[Table], str]:
        return lambda row: UNKNOWN_TEXT if row.get(name) is None else str(row[name])

    return {name.replace("_", " "): text(name) for name in names.split()}


def _estimate(name: str) -> Callable[[Table], str]:
    return lambda row: _lines(short(row[name]), _interval(row[f"{name}_ci95"]), " ")


_PLACE: Cells = _texts("name click_model learner scenario")
_RESULT: Cells = {
    **_PLACE,
    "chain": lambda row: row["defense"],
    "claimed": lambda row: UNKNOWN_TEXT if row["eps_claimed"] == "inf" else f"{row['eps_claimed']:g}",
    "best attack": lambda row: row["attack"] or (NO_SUM if row["runs_without_sum"] else UNKNOWN_TEXT),
    **{name: _estimate(name) for name in ("auc", "tpr_at_1", "precision", "recall", "ndcg@10")},
    "difference": _estimate("ndcg@10_difference"),
    "p": lambda row: UNKNOWN_TEXT if row["ndcg@10_p"] is None else f"{row['ndcg@10_p']:.3g}",
    "online nDCG@10": _estimate("online_mean"),
    "runs": lambda row: f"{row['runs']} of {row['runs_asked']}",
    "front": lambda row: (
        "yes" if row["pareto"] else "no: " + (", ".join(row["dominated_by"]) or UNKNOWN_TEXT)
    ),
}


def _every(title: str, rows: Sequence[Table], columns: Cells, texts: Sequence[str] = ()) -> Fold:
    """Rows as a table, without columns that are the same in all of several rows of a setting."""
    shown = rows[:MOST_ROWS]
    cells = [[cell(row) for cell in columns.values()] for row in shown]
    kept = [
        index
        for index, name in enumerate(columns)
        if name not in _PLACE or index == 0 or len({line[index] for line in cells}) > 1
    ]
    more = f" (the first {MOST_ROWS:,}; all with --to json)" if len(rows) > MOST_ROWS else ""
    return Fold(
        title=title,
        note=f"{len(rows):,} rows{more}",
        texts=texts if rows else (),
        head=[list(columns)[index] for index in kept],
        rows=[[line[index] for index in kept] for line in cells],
    )


def _warnings(rows: Sequence[Table]) -> Fold:
    codes = sorted({row["code"] for row in rows})
    meaning = [f"{code}: {WARNINGS[code].title}. {WARNINGS[code].text}" for code in codes if code in WARNINGS]
    return Fold(
        title=f"Warnings: {join_names(codes)}" if codes else "Warnings",
        note=f"{len(rows)} in all",
        texts=meaning,
        head=["defense", "code", "warning"],
        rows=[[row["name"], row["code"], row["warning"]] for row in rows],
    )


def _claims(rows: Sequence[Table]) -> Fold:
    columns: Cells = {
        **_texts("name learner scenario"),
        **_texts("sees unit canary"),
        "claimed": lambda row: UNKNOWN_TEXT if row["eps_claimed"] == "inf" else _bound(row["eps_claimed"]),
        "proven": lambda row: _bound(row["eps_upper"]),
        "all rounds": lambda row: _bound(row["run_eps"]),
        "exact loss": lambda row: _bound(row["eps_exact"]),
        "lower bound": lambda row: _bound(row["eps_lower"]),
        "at most": lambda row: _bound(row["eps_ceiling"]),
        **_texts("verdict why"),
    }
    text = (
        "Epsilons are of one message: proven by accounting; exact loss: of the pair that was played, where "
        "it has a formula; lower bound: shown by trials, and at most: the most that so many can show."
    )
    return _every("Claims, checked", rows, columns, [text])


def _groups(compared: Table) -> Fold:
    """How groups of clients are served, and how well the best attack reads them."""
    best = {_setting(row): row["attack"] for row in compared["results"]}
    attacked = [row for row in compared["groups"] if row["method"] == best.get(_setting(row))]
    hit, served = (
        {(*_setting(row), row["group"]): row for row in rows} for rows in (attacked, compared["served"])
    )
    rows = [{**hit.get(key, {}), **served.get(key, {})} for key in dict.fromkeys((*served, *hit))]
    columns: Cells = {
        **_PLACE,
        **_texts("group"),
        "online nDCG@10": lambda row: short(row.get("online_mean")),
        "AUC of the best attack": lambda row: short(row.get("auc")),
    }
    return _every("Groups of clients", rows, columns)


_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 396.0, 6.0, 192.0
_PANELS = {OFFLINE_NDCG: "offline nDCG@10 of the global model", ONLINE_NDCG: "online nDCG@10 of shown lists"}


def _curves(rows: Sequence[Table]) -> Iterator[Curve]:
    """Offline and online nDCG@10 by round, at the smallest epsilon, a picture for each world."""
    least = min((row["eps"] for row in rows if row["eps"] is not None), default=None)
    some = [row for row in rows if row["eps"] in (None, least)]
    names = list(dict.fromkeys(row["alternative"] for row in some))
    worlds: dict[tuple[str, ...], list[Table]] = {}
    for row in some:
        worlds.setdefault(_setting(row)[:-1], []).append(row)
    for world, mine in worlds.items():
        for metric, title in _PANELS.items():
            known = [(row, _known(row["round"], row[metric])) for row in mine]
            values = [value for _, points in known for _, value in points]
            if values:
                yield _curve(f"{title}, {world[2]} clicks", known, values, names)


def _known(rounds: Sequence[int], values: Sequence[float | None]) -> list[tuple[int, float]]:
    return [(each, value) for each, value in zip(rounds, values, strict=True) if value is not None]


def _curve(
    title: str,
    known: Sequence[tuple[Table, Sequence[tuple[int, float]]]],
    values: Sequence[float],
    names: Sequence[str],
) -> Curve:
    low, high = math.floor(min(values) * 10) / 10, math.ceil(max(values) * 10 + 1e-9) / 10
    last = max(each for _, points in known for each, _ in points) or 1

    def place(point: tuple[int, float]) -> str:
        x = _LEFT + (_RIGHT - _LEFT) * point[0] / last
        return f"{x:.1f},{_BOTTOM - (_BOTTOM - _TOP) * (point[1] - low) / (high - low):.1f}"

    steps = round((high - low) * 10)
    ticks = [
        (_BOTTOM - (_BOTTOM - _TOP) * step / steps, short(low + step / 10, 1)) for step in range(steps + 1)
    ]
    return Curve(
        title=title,
        words="; ".join(f"{row['name']} ends at {short(points[-1][1])}" for row, points in known if points),
        ticks=ticks,
        lines=[
            {
                "name": row["name"],
                "number": names.index(row["alternative"]),
                "points": " ".join(map(place, points)),
            }
            for row, points in known
        ],
    )


def _made(compared: Table, provenance: Provenance) -> Iterator[Fold]:
    dataset = compared["dataset"] or {}
    if dataset:
        names = [
            name for name in ("fold", "fingerprint", "train", "vali", "test") if name in dataset["folds"][0]
        ]
        yield Fold(
            title="Data",
            note=f"{dataset['source']}: {dataset['features']} features, {dataset['normalised']}",
            head=names,
            rows=[[str(fold[name]) for name in names] for fold in dataset["folds"]],
        )
    yield Fold(
        title="Versions, and how to repeat it",
        texts=[
            f"Seed {', '.join(map(str, provenance.seeds))}; run i is repetition i of it. Commands are "
            "for the folder of the comparison; the same seed gives the same numbers. Versions are those here."
        ],
        code=[f"foltr-audit compare --config {GRID} --out ANOTHER-FOLDER", provenance.grid.rstrip("\n")],
        head=["package", "version"],
        rows=[[*pair] for pair in provenance.versions.items()],
    )
    yield Fold(
        title="One cell on its own",
        note=f"{len(provenance.cells)} cells",
        head=["cell", "command"],
        rows=[[*cell] for cell in provenance.cells[:MOST_ROWS]],
    )


# --- numbers as text -------------------------------------------------------------------------------


def _bound(value: float | str | None) -> str:
    """An epsilon of the document, in which an infinity is a text."""
    return UNKNOWN_TEXT if value is None else bound_text(float(value))


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else interval_text(Estimate(math.nan, (float(ends[0]), float(ends[1]))))


def _signed(loss: float | None) -> str:
    return UNKNOWN_TEXT if loss is None else short(-loss).replace("-", "−")  # noqa: RUF001


def _lines(first: str, second: str, between: str = "\n") -> str:
    return f"{first}{between}{second}" if second else first


# --- forms -----------------------------------------------------------------------------------------


def html_page(page: Page) -> str:
    """The text of the HTML page; the same page gives the same bytes.

    The template escapes every text but three: script and style are files of ours, and the data are JSON in
    which `<` is escaped, so that nothing that users named can end their element.
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
    data = json_text(page.data).replace("<", "\\u003c")
    return environment.from_string(template).render(
        page=page,
        script=script,
        style=style,
        data=data,
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _hash(text: str) -> str:
    """The source of a content security policy that allows this text alone."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def markdown(page: Page) -> str:
    """The text for a README; what it quotes is shown literally, never as markup."""
    lines = [f"# {escape_markdown(page.headline)}", "", *(f"{escape_markdown(text)}\n" for text in page.lead)]
    lines += [
        f"- {escape_markdown(tile.name)}: **{escape_markdown(tile.value)}** ({escape_markdown(tile.note)})"
        for tile in page.tiles
    ]
    lines += ["", *(f"- {escape_markdown(text)}" for text in page.notices), ""]
    for fold in (page.defenses, *page.folds):
        if not fold.curves:
            lines += [f"## {escape_markdown(fold.title)}", "", *_markdown(fold)]
    return "\n".join([*lines, escape_markdown(page.made_by), ""])


def _markdown(fold: Fold) -> Iterator[str]:
    for text in fold.texts:
        yield from (escape_markdown(text), "")
    for text in fold.code:
        # Longer than every run of backticks in the text: else quoted text could end the block.
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        yield from (fence, *text.split("\n"), fence, "")
    if fold.rows:
        yield from (*markdown_lines(fold.head, fold.rows), "")
