"""`foltr-audit trace`: show recorded traces, check them, and find what their messages leak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.options import Json, Know
from foltr_audit.cli.output import note, print_json, print_line, show_table, stdout_console
from foltr_audit.cli.pages import HelpGroup, new_app, page
from foltr_audit.cli.user_code import named_client_step, no_result_printed
from foltr_audit.errors import TraceError
from foltr_audit.report.table import Column, make_table, value_cell

if TYPE_CHECKING:
    from foltr_audit.core.plugins import ClientStep
    from foltr_audit.experiments.recorded_attack import TraceAttack

app = new_app(cls=HelpGroup, help="Show recorded traces and check them.")

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A trace folder, a Run folder, or a folder of Runs.")
]
Data = Annotated[
    str | None, typer.Option(help="Path of the data set, if it has moved and its features are not embedded.")
]


def _find_runs(folder: Path) -> list[Path]:
    """The Run folders in a folder: none for a trace, itself for a Run, or those of a plan."""
    from foltr_audit.experiments.runs.folder import PLAN, SPEC, RunFolder

    if (folder / "trace.toml").exists():
        return []
    if (folder / PLAN).exists():
        return sorted(path.parent for path in folder.glob(f"*/{SPEC}"))
    return [RunFolder.open(folder).path]


def _find_traces(folder: Path) -> list[Path]:
    """The trace folders in a trace folder (itself), a Run folder, or a folder of Runs."""
    from foltr_audit.experiments.runs.folder import FRESH, TRAINING

    if (folder / "trace.toml").exists():
        return [folder]
    traces = [
        path
        for run in _find_runs(folder)
        for path in (run / TRAINING, *sorted((run / FRESH).glob("*")))
        if path.is_dir()
    ]
    if not traces:
        raise TraceError(f"trace: {folder}: the Run holds no trace yet")
    return traces


def _open_attacks(
    folder: Path, data: str | None, know: list[str] | None = None, client_step: ClientStep | None = None
) -> Iterator[TraceAttack]:
    """The attack on a trace, or those on the training rounds and the fresh clients of Runs."""
    from foltr_audit.experiments.recorded_attack import TraceAttack
    from foltr_audit.experiments.runs.folder import RunFolder
    from foltr_audit.trace.facts import parse_facts

    known = parse_facts(know or [])
    if (folder / "trace.toml").exists():
        yield TraceAttack.open(folder, data=data, know=known, client_step=client_step)
        return
    _find_traces(folder)  # refuses Runs without traces
    for run in _find_runs(folder):
        opened = RunFolder.open(run)
        if (opened.training / "trace.toml").exists():
            yield TraceAttack.open(run, target="training", data=data, know=known, client_step=client_step)
        if opened.fresh_traces():
            yield TraceAttack.open(run, target="fresh", data=data, know=known, client_step=client_step)


@app.command("info", cls=page("trace info"))
def info(folder: Folder, json: Json = False) -> None:
    """Show the contents of a trace without reading its messages."""
    from foltr_audit.trace import info as facts_of

    facts = {str(path): facts_of(path) for path in _find_traces(folder)}
    if json:
        print_json("trace-info/1", traces=facts)
        return
    columns = [
        Column("fact", lambda fact: fact[0].replace("_", " "), "name"),
        Column("value", lambda fact: _fact_text(fact[1]), "fold"),
    ]
    for path, rows in facts.items():
        show_table(make_table(path, columns, rows.items()))


def _fact_text(value: object) -> str:
    """A fact in words.

    >>> _fact_text(865.7727), _fact_text(True), _fact_text(["a", "b"]), _fact_text(25885)
    ('865.8', 'yes', 'a, b', '25,885')
    """
    if isinstance(value, dict):
        return "\n".join(f"{key} = {_fact_text(fact)}" for key, fact in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact_text, value))
    return f"{value:.4g}" if isinstance(value, float) else value_cell(value).text


@app.command("validate", cls=page("trace validate"))
def validate(folder: Folder, json: Json = False) -> None:
    """Check files, hashes, columns and numbers of a trace, and a Run's Spec; exit code 3 if any is wrong."""
    from foltr_audit.experiments.runs.folder import SPEC, RunFolder
    from foltr_audit.trace import validate as problems_of

    problems = {str(path): problems_of(path) for path in _find_traces(folder)}
    problems |= {str(run / SPEC): RunFolder(run).problems() for run in _find_runs(folder)}
    count = sum(len(lines) for lines in problems.values())
    if json:
        print_json("trace-validate/1", valid=not count, problems=problems)
    else:
        for path, lines in problems.items():
            print_line(f"{path}: {'valid' if not lines else f'{len(lines)} problems'}")
    for lines in problems.values():
        for problem in lines:
            note(f"error: {problem}")
    if count:
        raise typer.Exit(TraceError.exit_code)


@app.command(
    "check-facts",
    cls=page("trace check-facts"),
)
def check_facts(
    folder: Folder,
    data: Data = None,
    know: Know = None,
    client_step: Annotated[
        str | None, typer.Option(help="What the clients compute, if it is not PDGD; as for attack --trace.")
    ] = None,
    json: Json = False,
) -> None:
    """Check without the truth whether the declared facts explain the messages; exit code 1 if they do not.

    For a sample of messages about one list, the step of every click pattern is compared with the message. If
    the best patterns reproduce too few messages, a fact is wrong.
    """
    from foltr_audit.report.attack_details import FactsReport
    from foltr_audit.trace.facts import plain_facts

    rows = []
    with no_result_printed():
        for recorded in _open_attacks(folder, data, know, named_client_step(client_step)):
            known = plain_facts(recorded.known) or None
            for name, check in recorded.facts.items():
                of = {"trace": str(recorded.traces[name].folder), "known": known}
                rows.append(FactsReport.ROW.row(of | check.table()))
    report = FactsReport(facts=tuple(rows))
    if json:
        print_line(report.json())
    else:
        for line in report.lines():
            print_line(line)
    if any(row["wrong"] for row in rows):
        raise typer.Exit(1)


@app.command("lint", cls=page("trace lint"))
def lint(folder: Folder, json: Json = False) -> None:
    """Find without the truth what messages leak in addition to their payload; exit code 1 if they leak.

    Each check ends as found, clean or not looked, and says what it did not look at.
    """
    from foltr_audit.report.lists import print_lint
    from foltr_audit.trace.lint import lint as linted_of

    results = {str(path): linted_of(path) for path in _find_traces(folder)}
    if json:
        traces = {path: asdict(result) for path, result in results.items()}
        print_json("trace-lint/2", clean=all(each.clean for each in results.values()), traces=traces)
    else:
        print_lint(results, stdout_console())
    if any(result.leaks for result in results.values()):
        raise typer.Exit(1)
