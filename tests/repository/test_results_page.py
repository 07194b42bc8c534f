"""docs/results.md comes from its prose and the files of results/, and what is declared can be run."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results.__main__ import PAGE, RESULTS
from benchmarks.results.data_folders import DATA
from benchmarks.results.declarations import (
    DeclaredRun,
    DeclaredTable,
    PublishedClaim,
    TableColumn,
    TableExcerpt,
    read_declarations,
)
from benchmarks.results.files import RUN, DoneRun, ResultFolder, text_of
from benchmarks.results.page import PROSE, ResultsPage
from benchmarks.results.running import ROOT, ResultRunner, rows_of
from benchmarks.results.verdicts import judge
from foltr_audit.errors import UsageError
from tests.fixtures.doc_examples import unknown_options

DECLARED = read_declarations()
FILES = ResultFolder(RESULTS)
TABLE = DeclaredTable(
    name="t", title="T", runs=["r"], rows="found.rows", about=["clicks", "method"], found=["auc", "auc_ci95"]
)
ROWS = [
    {"clicks": "perfect", "method": "olsr", "auc": 0.91234, "auc_ci95": [0.9, 0.925]},
    {"clicks": "perfect", "method": "prior", "auc": 0.6, "auc_ci95": [0.5, 0.7]},
]


# --- the repository's own page and files ------------------------------------------------------------


def test_the_page_is_its_prose_with_claims_and_excerpts_of_the_files() -> None:
    again = ResultsPage(DECLARED, FILES).text(PROSE.read_text(encoding="utf-8"))
    assert again == PAGE.read_text(encoding="utf-8"), f"change {PROSE}, then make results"


@pytest.mark.parametrize("table", DECLARED.tables.values(), ids=lambda table: table.name)
def test_a_file_has_the_rows_of_all_runs_of_its_table(table: DeclaredTable) -> None:
    found = FILES.read(table)
    assert list(found.runs) == list(table.runs)
    assert {row[RUN] for row in found.rows} == set(table.runs)
    assert {key for row in found.rows for key in row} <= {RUN, *table.about, *table.found}
    about = [tuple(row.get(key) for key in table.about) for row in found.rows]
    assert len(set(about)) == len(about)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_says_how_its_rows_were_made(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {"title", "note", "rows"} < set(found)
    made = {"runs"} if path.stem in DECLARED.tables else {"commands", "date"}
    assert set(found) - {"title", "note", "rows"} == made


@pytest.mark.parametrize("run", DECLARED.runs.values(), ids=lambda run: run.name)
def test_every_declared_command_has_its_options(run: DeclaredRun) -> None:
    assert run.data in {"", *DATA}
    command = run.command
    if command.startswith("foltr-audit"):
        assert not unknown_options(command)
        assert "--json" in shlex.split(command)
        return
    module = re.match(r"python -m ([\w.]+)", command)
    assert module
    source = (ROOT / f"{module[1].replace('.', '/')}.py").read_text(encoding="utf-8")
    assert not [word for word in shlex.split(command) if word.startswith("--") and f'"{word}"' not in source]


def test_every_run_fills_a_table() -> None:
    assert set(DECLARED.runs) == {run for table in DECLARED.tables.values() for run in table.runs}


def test_rows_of_a_run_replace_its_earlier_ones_and_are_not_made_again(tmp_path: Path) -> None:
    done = DoneRun(
        command="c", data="D", digest="", seeds="", date="2026-01-01", version="0", code="", seconds=1.0
    )
    files = ResultFolder(tmp_path)
    printed = {"found": {"rows": [{**row, "other": 1} for row in ROWS]}}
    files.add(TABLE, "r", done, [])
    noted = replace(files.read(TABLE), note="by hand")
    files.path(TABLE.name).write_text(text_of(noted))
    for _ in range(2):
        files.add(TABLE, "r", done, rows_of(printed, TABLE, "D"))
    assert files.read(TABLE).rows == [{RUN: "r", **row} for row in ROWS]
    assert files.read(TABLE).note == "by hand"
    with pytest.raises(UsageError, match=r"no rows 'found.rows' in its JSON; expected one of \['x'\]"):
        rows_of({"x": 1}, TABLE, "D")
    run = DeclaredRun(name="r", command="c")
    declared = replace(DECLARED, runs={"r": run}, tables={"t": TABLE})
    runner = ResultRunner(declared, files, tmp_path, tmp_path)
    assert runner.run(run) == ("r", "stored", "by other code; --again runs it again")
    assert not replace(runner, again=True).current(run)
    assert not runner.current(replace(run, command="another"))


def test_a_page_says_where_rows_of_one_table_are_of_several_states_of_the_code(tmp_path: Path) -> None:
    done = DoneRun(
        command="c", data="D", digest="", seeds="", date="2026-01-01", version="0", code="a" * 64, seconds=1.0
    )
    table, files = replace(TABLE, runs=["r", "s", "t"]), ResultFolder(tmp_path)
    excerpt = TableExcerpt(name="e", table="t", by=["run"], columns=[TableColumn(head="run", value="run")])
    declared = replace(DECLARED, tables={"t": table}, excerpts={"e": excerpt}, claims=())
    for run in table.runs:
        files.add(table, run, done, ROWS[:1])
    assert "states" not in ResultsPage(declared, files).text("{{ e }}")
    files.add(table, "s", replace(done, code="b" * 64), ROWS[:1])
    said = f"These rows were made by 2 states of the code: {'a' * 12} of r, t; {'b' * 12} of s."
    assert ResultsPage(declared, files).text("{{ e }}").endswith(f"\n\n{said}")


# --- verdicts -------------------------------------------------------------------------------------

UNIT = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@given(mine=UNIT, other=UNIT, bound=st.floats(0, 1))
def test_verdicts_are_those_of_all_points_of_the_intervals(
    mine: list[float], other: list[float], bound: float
) -> None:
    """A rule holds if all points of the intervals agree, fails if none does."""
    rows = [
        {"clicks": "p", "method": "a", "auc_ci95": mine},
        {"clicks": "p", "method": "b", "auc_ci95": other},
    ]
    shared = {"paper": "p", "table": "t", "published": "P", "where": {"method": "a"}, "interval": "auc_ci95"}
    for rule, points in (
        ({"at_least": bound}, [x >= bound for x in mine]),
        ({"at_most": bound}, [x <= bound for x in mine]),
        ({"above": {"method": "b"}}, [x > y for x in mine for y in other]),
    ):
        expected = "holds" if all(points) else "cannot be said" if any(points) else "does not hold"
        found = judge(PublishedClaim(**shared, **rule), TABLE, rows)  # type: ignore[arg-type]
        assert found == expected
    equal = judge(PublishedClaim(**shared, equals=bound), TABLE, rows)  # type: ignore[arg-type]
    assert equal == ("holds" if mine[0] <= bound <= mine[1] else "does not hold")


def test_a_claim_needs_rows_and_intervals_and_one_rule() -> None:
    claim = PublishedClaim(
        paper="p", table="t", published="P", interval="auc_ci95", at_least=0.1, where={"method": "none"}
    )
    assert judge(claim, TABLE, ROWS) == "cannot be said"
    assert judge(claim, TABLE, [{"method": "none", "auc_ci95": None}]) == "cannot be said"
    ends = PublishedClaim(paper="p", table="t", published="P", interval="lower,upper", at_most=2.0)
    for lower, upper, expected in (
        (0.1, 2.0, "holds"),
        (2.5, "inf", "does not hold"),
        (1.0, "inf", "cannot be said"),
    ):
        assert judge(ends, TABLE, [{"lower": lower, "upper": upper}]) == expected
    with pytest.raises(UsageError, match="expected one of at_least"):
        PublishedClaim(paper="p", table="t", published="P", interval="auc_ci95", at_least=0.1, at_most=0.2)
    with pytest.raises(UsageError, match="expected holds"):
        PublishedClaim(paper="p", table="t", published="P", verdict="true")
