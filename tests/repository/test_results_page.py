"""Pages of docs/ come from their prose and stored results, and whatever is declared for them can be run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results.__main__ import DOCS, main
from benchmarks.results.cells import cell, shown
from benchmarks.results.data_folders import DATA, RealData
from benchmarks.results.declarations import (
    DeclaredRun,
    DeclaredTable,
    PublishedClaim,
    ResultDeclarations,
    TableColumn,
    read_declarations,
)
from benchmarks.results.page import ResultsPage, block, broken, kept, read_pages
from benchmarks.results.running import ROOT, ResultRunner, words
from benchmarks.results.stored import ResultStore, StoredResult
from benchmarks.results.verdicts import judge
from foltr_audit.errors import UsageError
from tests.fixtures.doc_examples import joined, unknown_options

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


def stored(**changes: object) -> StoredResult:
    told: dict[str, object] = {
        "name": "r",
        "command": "foltr-audit attack --data {data}",
        "data": "",
        "version": "1",
    }
    told |= {"date": "2026-01-02", "seconds": 61.4, "result": {"config": {"seed": 7}, "results": ROWS}}
    return StoredResult(**{**told, **changes})  # type: ignore[arg-type]


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


# --- tables ---------------------------------------------------------------------------------------


def page_of(table: DeclaredTable, *claims: PublishedClaim, before: str = "") -> ResultsPage:
    run = DeclaredRun(name="r", command="foltr-audit attack --data {data}", data="mq2008")
    declared = ResultDeclarations({"r": run}, {"t": table}, claims)
    return ResultsPage(declared, lambda _: None if before else stored(), before)


def test_a_table_has_command_lines_seed_date_and_claims() -> None:
    table = DeclaredTable(**{**vars(TABLE), "where": {"method": "olsr"}})
    claim = PublishedClaim(table="t", published="P", note="N", value="auc", interval="auc_ci95", at_least=0.8)
    assert page_of(table, claim).text("# Title\n\n{{ t }}\n") == (
        "# Title\n\n<!-- t -->\n\n    foltr-audit attack --data MQ2008\n\n"
        "| clicks | AUC |\n|---|---|\n| perfect | .912 (.900 to .925) |\n\n"
        "Seed 7, 1 run; made on 2026-01-02 with foltr-audit 1 in 61 seconds. "
        "Brackets hold 95 % intervals.\n\n"
        "| claim | here | found |\n|---|---|---|\n| P | **holds** | .912: N |\n\n<!-- end of t -->\n"
    )


def test_a_comparison_tells_its_runs_and_an_infinite_value_is_found() -> None:
    grid = stored(
        result={"config": {"runs": 5, "spec": {}}, "results": [{"auc": "inf", "ends": ["inf", "inf"]}]}
    )
    claim = PublishedClaim(table="t", published="P", value="auc", interval="ends", at_most=1.2)
    table = DeclaredTable(name="t", runs=["r"], rows="results", by=[], columns=[AUC])
    page = ResultsPage(page_of(table, claim).declared, lambda _: grid, "").table("t")
    assert "Seed 1, 5 runs; made on" in page
    assert "| P | **does not hold** | inf |" in page


def test_all_claims_stand_in_one_table() -> None:
    shared = {"table": "t", "interval": "auc_ci95", "value": "auc", "where": {"method": "olsr"}}
    claims = [PublishedClaim(published=name, at_least=x, **shared) for name, x in (("P", 0.8), ("Q", 0.95))]  # type: ignore[arg-type]
    table = DeclaredTable(**{**vars(TABLE), "where": {"method": "olsr"}})
    assert page_of(table, *claims).all_claims(["t"]).splitlines()[2:] == [
        "| P | **holds** | .912 |",
        "| Q | **does not hold** | .912 |",
    ]
    earlier = (
        "| clicks |\n|---|\n| perfect |\n\n| claim | here | found |\n|---|---|---|\n| O | **holds** | 1 |"
    )
    page = page_of(table, *claims, before=block("t", earlier))
    assert page.all_claims(["t"]).splitlines()[2:] == ["| O | **holds** | 1 |"]
    assert page_of(table, *claims, before="nothing").all_claims(["t"]).splitlines()[2:] == []
    assert page_of(table, *claims).all_claims(["other"]).splitlines()[2:] == [], "claims of other pages"


def test_a_table_without_results_keeps_its_text() -> None:
    before = f"{block('s', 'of s')}\n\n{block('t', 'by hand')}\n"
    assert page_of(TABLE, before=before).text("{{ t }}\n") == block("t", "by hand") + "\n"
    assert kept("unknown", before).startswith("Not run yet")


def test_a_line_with_two_values_for_a_column_is_an_error() -> None:
    with pytest.raises(UsageError, match="2 values in one line"):
        cell(ROWS, AUC)
    assert cell(ROWS, TableColumn(head="", value="auc", where={"method": "prior"})) == ".600"
    assert cell(ROWS, TableColumn(head="", value="auc", where={"method": "lad"})) == ""


@pytest.mark.parametrize("prose", ["{{ t }}\n\n{{ other }}\n", "nothing", "{{ t }}\n\n{{ t }}\n"])
def test_every_declared_table_has_one_place_and_no_other_has(prose: str, tmp_path: Path) -> None:
    declared = page_of(TABLE).declared
    (tmp_path / "a.md").write_text("# A\n\n{{ claims }}\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("{{ t }}\n", encoding="utf-8")
    assert list(read_pages(declared, tmp_path)) == ["a.md", "b.md"]
    (tmp_path / "b.md").write_text(prose, encoding="utf-8")
    with pytest.raises(UsageError, match="expected one place for each declared table"):
        read_pages(declared, tmp_path)


@pytest.mark.parametrize(
    ("value", "format_", "text"),
    [
        (0.5, "share", ".500"),
        (-0.5, "share", "\N{MINUS SIGN}.500"),
        (1.0, "share", "1.000"),
        (10.5, "share", "10.500"),
        (1234.5, "number", "1,234.500"),
        (0.25, "percent", "25.000 %"),
        (10.0, "text", "10"),
        ("a|b", "share", "a\\|b"),
        (True, "share", "yes"),
    ],
)
def test_values_have_formats(value: object, format_: str, text: str) -> None:
    assert shown(value, TableColumn(head="", value="", format=format_)) == text


def test_a_long_command_is_broken_into_lines_that_mean_the_same() -> None:
    command = (
        "foltr-audit attack "
        + " ".join(f"--method map:prior=relevance{i}" for i in range(12))
        + " --eps 'a b'"
    )
    text = broken(command)
    assert max(map(len, text.splitlines())) <= 120
    assert shlex.split(joined(text)) == shlex.split(command)


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


# --- declarations and runs ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[run]]\nname = "a"\ncommand = "c"\nother = 1', "other"),
        ('[[run]]\nname = "a"', "command"),
        ('[[run]]\nname = "a"\ncommand = "c"\n[[run]]\nname = "a"\ncommand = "c"', "declared twice"),
        ('[[table]]\nname = "t"\nruns = ["a"]\nrows = ""\nby = []', "a is not declared"),
        ('[[claim]]\ntable = "t"\npublished = "P"\nverdict = "holds"', "t is not declared"),
    ],
)
def test_a_wrong_declaration_is_one_clear_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_declarations(tmp_path)


def test_results_are_run_once_and_again_when_command_or_data_change(tmp_path: Path) -> None:
    shared, store = tmp_path / "shared", ResultStore(tmp_path / "store")
    runner = ResultRunner(store, shared)
    run = DeclaredRun(name="r", command="foltr-audit list defenses --json", data="mslr-sample")
    assert runner.run(run).state == "skipped"
    (shared / "mslr-sample").mkdir(parents=True)
    (shared / "mslr-sample" / "train.txt").write_text("1 qid:1 1:2\n", encoding="utf-8")
    assert [runner.run(run).state for _ in range(2)] == ["done", "stored"]
    assert not list((tmp_path / "store").glob("*.begun"))
    (shared / "mslr-sample" / "train.txt").write_text("0 qid:1 1:2\n", encoding="utf-8")
    assert runner.current(run) is None
    (shared / "mslr-sample" / "train.txt").unlink()
    assert runner.current(run) is not None  # nothing says that the data have changed
    assert runner.current(DeclaredRun(name="r", command="foltr-audit list attacks --json")) is None
    failing = DeclaredRun(name="f", command="foltr-audit list defenses --no-such-option")
    assert runner.run(failing).state == "failed"
    assert store.read("f") is None


def test_a_command_that_stores_its_parts_tells_what_they_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore(tmp_path)
    runner, run = ResultRunner(store, tmp_path), DeclaredRun(name="r", command="foltr-audit list defenses")
    for printed, expected in (({"processor_seconds": 1234.56}, True), ({}, False)):
        monkeypatch.setattr(ResultRunner, "_printed", lambda *_, printed=printed: printed)
        (tmp_path / "r.json").unlink(missing_ok=True)
        assert runner.run(run).state == "done"
        found = store.read("r")
        assert found is not None
        assert (found.seconds == 1234.6) is expected


def test_only_commands_of_this_project_are_run() -> None:
    with pytest.raises(UsageError, match="expected foltr-audit or python -m"):
        words("rm -r /", None)
    with pytest.raises(UsageError, match="expected data"):
        words("foltr-audit attack --data {data}", None)


def test_a_stored_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.write(stored())
    assert store.read("r") == stored()
    table = json.loads(store.path("r").read_text(encoding="utf-8"))
    store.path("r").write_text(json.dumps({**table, "schema": "other"}), encoding="utf-8")
    with pytest.raises(UsageError, match="expected a stored result"):
        store.read("r")


def test_folds_are_those_of_letor_and_joined_files_have_all_lines(tmp_path: Path) -> None:
    parts = tmp_path / "shared" / "some"
    parts.mkdir(parents=True)
    for k in range(1, 6):
        (parts / f"S{k}.txt").write_text(f"S{k}\n", encoding="utf-8")
    folds = RealData("some", "Some", "some", "folds").path(tmp_path / "shared", tmp_path / "work")
    told = {
        path.relative_to(folds).as_posix(): path.read_text(encoding="utf-8").split()
        for path in folds.rglob("*.txt")
    }
    assert told["Fold1/train.txt"] == ["S1", "S2", "S3"]
    assert [told[f"Fold{k}/vali.txt"] for k in range(1, 6)] == [["S4"], ["S5"], ["S1"], ["S2"], ["S3"]]
    assert [told[f"Fold{k}/test.txt"] for k in range(1, 6)] == [["S5"], ["S1"], ["S2"], ["S3"], ["S4"]]
    joined_ = RealData("some", "Some", "some", "joined").path(tmp_path / "shared", tmp_path / "work")
    assert joined_.read_text(encoding="utf-8").split() == ["S1", "S2", "S3", "S4", "S5"]


def test_the_command_line_refuses_unknown_names_and_renders_without_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {name: (DOCS / name).read_text(encoding="utf-8") for name in read_pages(DECLARED)}
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    options = ["--docs", str(tmp_path), "--store", str(tmp_path / "store"), "--shared", str(tmp_path)]
    assert main([*options, "--only", "no-such-table"]) == 2
    assert "--only no-such-table: not declared" in capsys.readouterr().err
    assert main([*options, "--render"]) == 0
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in pages} == pages
