"""The page of a comparison, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

from foltr_audit.experiments.comparison.folder import CELLS, GRID, ComparisonFolder
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.report.pictures import compare_panels as panels
from foltr_audit.report.pictures.compare_panels import PanelPlot, figure_of
from foltr_audit.report.pictures.style import inline_svg
from foltr_audit.report.render.document import (
    Block,
    BulletList,
    CodeBlock,
    Conclusion,
    DocumentSection,
    LegendKey,
    Notice,
    Paragraph,
    PicturePanel,
    Pictures,
    ReportDocument,
    Subheading,
)
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_summary import cells_done, epsilons, summarise, worlds
from foltr_audit.report.results.decision import Decision, decide
from foltr_audit.report.results.wording import CHOSEN, FRONT, PROMISE, evaluated_part
from foltr_audit.report.tables import compare as tables
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.formatting import epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PACKAGES = (
    *("foltr-audit", "numpy", "numba", "scipy", "polars", "pydantic", "statsmodels", "dp-accounting"),
    *("matplotlib", "jinja2"),
)
"""Packages that numbers or pictures depend on."""


class CellCommand(NamedTuple):
    """How one cell is run on its own.

    Attributes:
        name: its defense and run.
        kind: `attack` or `audit`.
        command: inside the comparison's folder.
    """

    name: str
    kind: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to reproduce a comparison.

    Attributes:
        grid: its grid, TOML.
        seeds: of its cells.
        versions: of packages here, where the report is made.
        cells: how each cell is run on its own.
    """

    grid: str
    seeds: Sequence[int]
    versions: Mapping[str, str]
    cells: Sequence[CellCommand]

    @classmethod
    def of(cls, folder: ComparisonFolder) -> Provenance:
        """The provenance of a folder.

        Raises:
            TraceError: it is damaged.
        """
        planned = folder.cells()
        return cls(
            grid=folder.grid.public.toml,
            seeds=sorted({cell.spec.seed for cell in planned}),
            versions=versions(),
            cells=[
                CellCommand(
                    cell.name,
                    cell.kind,
                    f"foltr-audit {cell.kind} --config {CELLS}/{cell.spec.hash[:12]}/{SPEC}",
                )
                for cell in planned
            ],
        )

    @property
    def command(self) -> str:
        """The command that repeats the whole comparison, inside its folder."""
        return f"foltr-audit compare --config {GRID} --out ANOTHER-FOLDER"


def versions() -> dict[str, str]:
    """Versions of Python and of `PACKAGES`, here and now."""
    import platform

    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


MOST_DRAWN = 1_400_000
"""Letters of all pictures of a document: a browser shows a page with more of them slowly."""

MOST_CELLS = 200
"""Cells whose commands are listed."""

MOST_ATTACKS = 1000
"""Rows of the tables of every attack; more are in JSON only."""

_GUESSES = [LegendKey("◆", 1, "attack"), LegendKey("○", None, "guess without a message")]
_BAR = [LegendKey("■", 0, "a group of clients"), LegendKey("|", 1, "all clients")]

_TRADE_OFF = (
    "Each point is a defense: to the left, the best attack finds less; further up, the ranker is better. "
    f"Filled points on the grey line are the front: {FRONT}. Labels are "
    "claimed epsilons, or names where there is only one. Thin lines are 95 % intervals, the dashed line is "
    f"chance. A dotted line leads to a stroke where something is proven: {PROMISE}."
)
_BY_EPSILON = (
    f"Precision, recall and AUC of the attack with the best AUC, {CHOSEN}; and offline nDCG@10. Last: no "
    "defense. Where there is no precision, the attack named nothing. Thin lines are 95 % intervals. The "
    f"shade begins at what is proven: {PROMISE}."
)
_LEARNING = (
    "Offline: nDCG@10 of the global model on {part} after each round. Online: nDCG@10 of the lists that "
    "users were shown in it. Means over runs."
)
_LADDER = "AUC of every attack, with 95 % intervals; the dashed line is chance."


def document(report: CompareReport, provenance: Provenance, *, pictures: bool = True) -> ReportDocument:
    """The document of a comparison.

    Args:
        report: the comparison.
        provenance: how to reproduce it.
        pictures: whether it has pictures, and tables with all columns.
    """
    drawer = _PictureDrawer() if pictures else None
    data = report.dataset.title if report.dataset else "data: none yet"
    decision = decide(report)
    return ReportDocument(
        title="Defenses of federated online learning to rank, compared",
        subtitle=data[0].upper() + data[1:],
        sections=[
            DocumentSection("Decision", "decision", _decision(decision)),
            DocumentSection("In short", "summary", list(_summary(report))),
            DocumentSection("At a glance", "glance", _glance(report, decision, marked=pictures)),
            *([] if drawer is None else _pictures(report, drawer)),
            DocumentSection("Groups of clients", "groups", _groups(report, drawer)),
            DocumentSection(
                "Claims", "claims", [tables.claims_table(report.claims)] if report.claims else []
            ),
            DocumentSection("All results", "results", _tables(report, every=pictures)),
            DocumentSection("Warnings and gaps", "warnings", tables.gap_tables(report)),
            DocumentSection("How it was made", "made", list(_made(report, provenance))),
        ],
        made_by=f"foltr-audit {provenance.versions['foltr-audit']}",
    )


def _summary(report: CompareReport) -> Iterator[Block]:
    asked, done = cells_done(report)
    if done < asked:
        yield Notice(f"Not finished: {done} of {asked} cells are done.")
    if report.dataset and report.dataset.synthetic:
        yield Paragraph("The data are synthetic: what holds here need not hold for real users.")
    several = len(worlds(report)) > 1
    for one in summarise(report):
        if several and one.world:
            yield Subheading(one.world)
        if one.sentences:
            yield BulletList(one.sentences)


def _decision(decision: Decision | None) -> list[Block]:
    """What to use, then why, what it needs and costs, and what was not tested."""
    if decision is None:
        return []
    first, *reasons = decision.sentences
    shown = Notice(first) if decision.best is None else Conclusion(first)
    return [shown, *([BulletList(reasons)] if reasons else [])]


def _glance(report: CompareReport, decision: Decision | None, *, marked: bool) -> list[Block]:
    if decision is None:
        return []
    return [tables.glance_table(world, decision, marked=marked) for world in worlds(report)]


def _pictures(report: CompareReport, drawer: _PictureDrawer) -> Iterator[DocumentSection]:
    defenses, at = panels.defense_keys(report), _smallest(report)
    drawn = drawer.draw("trade-off", panels.trade_offs(report), _TRADE_OFF, defenses, wide=True)
    yield DocumentSection("Privacy against utility", "trade-off", drawn)
    drawn = drawer.draw("epsilon", panels.by_epsilon(report), _BY_EPSILON, panels.measure_keys())
    yield DocumentSection("What epsilon buys", "epsilon", drawn)
    yield DocumentSection(
        "Attack ladder", "ladder", drawer.draw("ladder", panels.ladders(report), _LADDER + at, _GUESSES)
    )
    caption = _LEARNING.format(part=evaluated_part(row.evaluated_on for row in report.results))
    drawn = drawer.draw("learning", panels.learning(report), caption, defenses)
    yield DocumentSection("Learning curves", "learning", drawn)


def _groups(report: CompareReport, drawer: _PictureDrawer | None) -> list[Block]:
    caption = f"By group of clients, worst first.{_smallest(report)}"
    bars = [] if drawer is None else drawer.draw("groups", panels.group_bars(report), caption, _BAR)
    return [*bars, *(table for table in map(tables.groups_table, worlds(report)) if table is not None)]


def _smallest(report: CompareReport) -> str:
    every = epsilons(report.results)
    return f" Shown for the smallest claimed epsilon, {epsilon(min(every))}." if every else ""


class _PictureDrawer:
    """Draws pictures until they fill the page."""

    def __init__(self) -> None:
        self.left = MOST_DRAWN

    def draw(
        self,
        name: str,
        found: Iterable[PanelPlot],
        caption: str,
        legend: Sequence[LegendKey],
        *,
        wide: bool = False,
    ) -> list[Block]:
        """A block of pictures; none where there is nothing to draw."""
        several = list(found)
        width = panels.WIDTH * (1.15 if wide and len(several) == 1 else 1.0)
        drawn = []
        for number, panel in enumerate(several):
            if self.left > 0:
                svg = inline_svg(_figure(panel, width), f"{name}: {panel.title}", f"{name}-{number}")
                self.left -= len(svg)
                drawn.append(PicturePanel(svg, panel.title))
        if not several:
            return []
        if not drawn:
            return [
                Paragraph(
                    f"{len(several)} pictures are left out for their size; the tables have the numbers."
                )
            ]
        if len(drawn) < len(several):
            caption += f" {len(drawn)} of {len(several)} are drawn, for their size; the tables have all."
        return [Pictures(caption=caption, panels=drawn, legend=legend, wide=wide)]


def _figure(panel: PanelPlot, width: float) -> Callable[[], Figure]:
    return lambda: figure_of(panel, width)


def _tables(report: CompareReport, *, every: bool) -> list[Block]:
    found: list[Block] = []
    shown = every and len(report.attacks) <= MOST_ATTACKS
    for world in worlds(report):
        found.append(tables.everything_table(world))
        if shown and world.attacks:
            found.append(tables.attacks_table(world))
    if found and not shown:
        found.append(Paragraph("Every attack, and not only the best one: see --to json."))
    return found


def _made(report: CompareReport, provenance: Provenance) -> Iterator[Block]:
    yield Subheading("Data")
    if report.dataset is not None:
        data = report.dataset
        title = f"{data.source}: {data.features} features, {data.normalised}"
        names = ("fold", "fingerprint", "train", "vali", "test")
        yield tables.table_of_rows(title, data.folds, {name: name for name in names})
    settings = [row.setting for row in report.results]
    if settings:
        yield Subheading("What was run")
        chains = dict.fromkeys((one.name, one.defense) for one in settings)
        yield _plain_table("Chains of defenses", ["defense", "chain"], list(chains))
        kinds = dict.fromkeys((one.learner, one.scenario, one.click_model) for one in settings)
        yield _plain_table("Learners and clients", ["learner", "scenario", "clicks"], list(kinds))
    yield Subheading("Versions and seeds")
    yield Paragraph(
        f"Seed {', '.join(map(str, provenance.seeds))}; run i is repetition i of it. Versions are "
        "those that made this report."
    )
    yield _plain_table("Versions", ["package", "version"], [[*pair] for pair in provenance.versions.items()])
    yield Subheading("Reproduce it")
    yield Paragraph("Inside of the folder of the comparison; the same seed gives the same numbers.")
    yield CodeBlock(provenance.command)
    yield Paragraph("Its configuration, grid.toml:")
    yield CodeBlock(provenance.grid)
    yield Paragraph("One cell on its own, with the whole output of its command:")
    rows = [[one.name, one.command] for one in provenance.cells[:MOST_CELLS]]
    yield _plain_table("Cells", ["cell", "command"], rows)
    if len(provenance.cells) > MOST_CELLS:
        more = len(provenance.cells) - MOST_CELLS
        yield Paragraph(f"The other cells ({more}) are run in the same way; comparison.json names them.")


def _plain_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    columns = [
        Column[Sequence[str]](text, partial(_part, number=n), "words") for n, text in enumerate(headers)
    ]
    return make_table(title, columns, rows)


def _part(row: Sequence[str], number: int) -> str:
    return row[number]
