"""Pages of docs/ come from their prose and stored results, and whatever is declared for them can be run."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results.__main__ import DOCS
from benchmarks.results.data_folders import DATA
from benchmarks.results.declarations import (
    DeclaredRun,
    DeclaredTable,
    PublishedClaim,
    TableColumn,
    read_declarations,
)
from benchmarks.results.page import ResultsPage, read_pages
from benchmarks.results.running import ROOT
from benchmarks.results.verdicts import judge
from foltr_audit.errors import UsageError
from tests.fixtures.doc_examples import unknown_options

DECLARED = read_declarations()
AUC = TableColumn(head="AUC", value="auc", interval="auc_ci95")
TABLE = DeclaredTable(
    name="t",
    runs=["r"],
    rows="results",
    by=["clicks"],
    columns=[TableColumn(head="clicks", value="clicks"), AUC],
)
ROWS = [
    {"clicks": "perfect", "method": "olsr", "auc": 0.91234, "auc_ci95": [0.9, 0.925]},
    {"clicks": "perfect", "method": "prior", "auc": 0.6, "auc_ci95": [0.5, 0.7]},
]


# --- the repository's own pages -------------------------------------------------------------------


@pytest.mark.parametrize(("name", "prose"), read_pages(DECLARED).items())
def test_a_page_is_its_prose_with_tables_between_comments(name: str, prose: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    again = ResultsPage(DECLARED, lambda _: None, page).text(prose)
    assert again == page, f"docs/{name} is generated: change benchmarks/results/pages/{name}, then --render"


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


def test_every_run_is_shown() -> None:
    assert set(DECLARED.runs) == {run for table in DECLARED.tables.values() for run in table.runs}


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
    shared = {"table": "t", "published": "P", "where": {"method": "a"}, "interval": "auc_ci95"}
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
        table="t", published="P", interval="auc_ci95", at_least=0.1, where={"method": "none"}
    )
    assert judge(claim, TABLE, ROWS) == "cannot be said"
    assert judge(claim, TABLE, [{"method": "none", "auc_ci95": None}]) == "cannot be said"
    ends = PublishedClaim(table="t", published="P", interval="lower,upper", at_most=2.0)
    for row, expected in (
        ((0.1, 2.0), "holds"),
        ((2.5, "inf"), "does not hold"),
        ((1.0, "inf"), "cannot be said"),
    ):
        assert judge(ends, TABLE, [dict(zip(("lower", "upper"), row, strict=True))]) == expected
    with pytest.raises(UsageError, match="expected one of at_least"):
        PublishedClaim(table="t", published="P", interval="auc_ci95", at_least=0.1, at_most=0.2)
    with pytest.raises(UsageError, match="expected holds"):
        PublishedClaim(table="t", published="P", verdict="true")
