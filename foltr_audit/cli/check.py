"""`foltr-audit check`: check a run, a trace or a comparison against limits, or a zip of results."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from foltr_audit.cli.common import (
    CLAIM,
    CommonOptions,
    OtherHelp,
    read_config,
    shared_but,
    takes,
    use_threads,
)
from foltr_audit.cli.options import (
    Table,
    argument,
    methods_of,
    option,
    read_text,
    refuse_given,
    refuse_others,
    switch,
    words,
)
from foltr_audit.cli.output import (
    note,
    print_line,
    refuse_place,
    save_config,
    show,
    stdout_console,
    warn,
    warn_of_unloadable,
    write_file,
)
from foltr_audit.cli.pages import new_app, page
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.errors import FoltrAuditError, UsageError, suggest_name
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from foltr_audit.evidence.check.fresh_runs import CheckRunRequest
    from foltr_audit.evidence.check.limits import SystemLimits
    from foltr_audit.evidence.check.outcomes import Checked
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.check import CheckReport, Format, LimitsPlace

FORMATS: tuple[Format, ...] = ("table", "json", "junit", "markdown", "github")


class Outputs(NamedTuple):
    """The form on stdout, and that of each file."""

    shown: Format
    files: Sequence[tuple[Format, Path]]

    @classmethod
    def of(cls, texts: Sequence[str], *, json: bool) -> Outputs:
        """What `--format` asks for; stdout shows a table unless a form without a file is named."""
        shown: list[Format] = ["json"] if json else []
        files: list[tuple[Format, Path]] = []
        for text in texts:
            name, equals, file = text.partition("=")
            if name not in FORMATS:
                raise UsageError(f"--format: unknown {name!r}; {suggest_name(name, FORMATS)}")
            if not equals:
                shown.append(name)
                continue
            if name == "table":
                raise UsageError(f"--format: {text}: a table is for stdout; expected markdown={file}")
            refuse_place("--format", Path(file))
            files.append((name, Path(file)))
        if len(shown) > 1:
            raise UsageError(
                f"--format: {shown[0]} and {shown[1]} both go to stdout; expected a file for one of them, "
                f"e.g. --format {shown[1]}=FILE"
            )
        return cls(shown[0] if shown else "table", files)


ALWAYS = words("limits json threads formats")
WITH_TRACE = (*ALWAYS, *words("trace method data intents seed"))
_PLACES = {"data": "data.source", "seed": "seed", "intents": "data.intents"}
WITH_COMPARISON = (*ALWAYS, *words("comparison defense eps"))
PACKED = words("limits sample rerun_all jobs seed data intents json threads")

_SHARED: tuple[str | OtherHelp, ...] = (
    *shared_but("data.source data.intents seed"),
    OtherHelp(
        "data.source",
        "Folder or file with LETOR data or a search log, or synthetic:NAME[:QUERIES]; with a zip, where its "
        "data set is. Default: synthetic:mq2007; with a zip the name of its data set, in this folder.",
    ),
    OtherHelp(
        "data.intents",
        "TREC qrels: a folder with a file for each intent (1.txt, 2.txt, ...), or FILE[:I], the first I "
        "subtopics (4) of one file; or synthetic[:I] for synthetic ones; with a zip, where they are.",
    ),
    OtherHelp("seed", "Seed of all random draws. Default: 1; with a zip a new number, which is printed."),
)

app = new_app()
ZIP = "Packed results"


@app.command(cls=page("check"))
@takes(*CLAIM, *_SHARED)
def check(
    ctx: typer.Context,
    common: CommonOptions,
    limits: Path = argument(
        "Limits in TOML, e.g. max_attack_auc = 0.6, which foltr-audit new limits begins; or results that "
        "foltr-audit report --zip has packed.",
        "LIMITS.toml|FILE.zip",
    ),
    trace: Path | None = option("Check a recorded Run or trace instead of a new run.", metavar="DIR"),
    comparison: Path | None = option(
        "Check a finished comparison instead. --defense and --eps select its rows. Default: all except none.",
        metavar="DIR",
    ),
    method: list[str] | None = option(
        "Attack, or all. May be repeated. Default: olsr, lad and map, or those that fit, and those of "
        "--config."
    ),
    click_model: list[str] | None = option(
        "How users click, in training and when attacked. May be repeated. Default: perfect, navigational and "
        "informational."
    ),
    formats: list[str] | None = option(
        "table, json, junit, markdown or github (annotations): on stdout, or with =FILE in a file. "
        "May be repeated. Default: table.",
        name="--format",
        metavar="FORMAT[=FILE]",
    ),
    sample: int | None = option(
        "Number of cells or Runs to re-run, drawn with --seed at random; 0 for none. Default: 3.", panel=ZIP
    ),
    rerun_all: bool = switch("--all", "Re-run every cell or Run.", ZIP),
    jobs: int | None = option(
        "Processes that re-run cells of a comparison. Default: one per core.", panel=ZIP
    ),
) -> None:
    """Check a new run, a trace or a comparison against limits, or a zip of results.

    Exit code 0 if all limits hold, 1 if one is broken or cannot be judged.

    Given a zip of results, check every hash, that the results follow from the cells, and some cells by a
    re-run. Exit code 0 if it is verified, 1 if it does not hold or a check was not possible, 3 if it is
    damaged.
    """
    if limits.suffix.lower() == ".zip" or zipfile.is_zipfile(limits):
        refuse_others(ctx, PACKED, "not with a zip of results")
        use_threads(common.threads)
        _verify(limits, common, sample, jobs, every=rerun_all)
        return
    refuse_given({"sample": sample, "all": rerun_all, "jobs": jobs}, "only with a zip of results")
    from foltr_audit.evidence.check.limits import SystemLimits
    from foltr_audit.evidence.check.recorded_runs import check_trace
    from foltr_audit.evidence.check.subjects import check_comparison
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.report.check import CheckReport, LimitsPlace

    if limits.is_dir():
        raise UsageError(
            f"{limits} is a folder; expected limits, and --trace or --comparison before the folder"
        )
    if not limits.exists():
        raise UsageError(f"LIMITS.toml: {limits}: no such file; foltr-audit new limits NAME writes one")
    text = read_text(limits, "LIMITS")
    given, place = SystemLimits.from_toml(text, str(limits)), LimitsPlace.of(limits, text)
    outputs = Outputs.of(formats or (), json=common.json)
    if trace is not None:
        refuse_others(ctx, WITH_TRACE, "not with --trace, whose messages were sent already")
        use_threads(common.threads)
        places = {name: common.fields.get(field) for name, field in _PLACES.items()}
        every = "all" in (method or ())
        checked = check_trace(given, trace, _methods(method), on_terminal(), every=every, **places)
    elif comparison is not None:
        refuse_others(ctx, WITH_COMPARISON, "not with --comparison, which was run already")
        use_threads(common.threads)
        folder = ComparisonFolder.open(comparison)
        checked = check_comparison(given, folder, common.defense or (), common.eps or (), on_terminal())
    else:
        checked = _check_fresh(given, common, method, click_model)
    _finish(CheckReport.of(checked), outputs, place)


def _check_fresh(
    limits: SystemLimits, common: CommonOptions, method: list[str] | None, click_model: list[str] | None
) -> Checked:
    from foltr_audit.evidence.check.fresh_runs import check_fresh
    from foltr_audit.evidence.check.limits import AUDIT_LIMITS, CEILING
    from foltr_audit.experiments.comparison.folder import comparison_folder
    from foltr_audit.report.compare import CompareReport

    common.output()  # refuses options that exclude each other
    audit = common.of_table("audit")
    if not limits.audited:
        refuse_given(audit, f"only with a limit that needs an audit: {', '.join((CEILING, *AUDIT_LIMITS))}")
    request = _request(common, method, click_model, audit)
    save_config(common.save_config, request.plan)  # as given: defaults must not be frozen into it
    use_threads(common.threads)
    progress, every = on_terminal(), "all" in (method or ())
    with comparison_folder(common.out, resume=common.resume, overwrite=common.overwrite) as folder:
        checked = check_fresh(limits, request, folder, progress, named=bool(method), every=every)
        if common.out is not None:
            folder.save_results(CompareReport.of(folder, folder.failures(), progress).json())
    return checked


def _request(
    common: CommonOptions, method: list[str] | None, click_model: list[str] | None, audit: Table
) -> CheckRunRequest:
    from foltr_audit.evidence.check.fresh_runs import CheckRunRequest
    from foltr_audit.evidence.check.subjects import click_attacks

    recorded = {
        "trace-every": common.fields.get("trace.every") or None,
        "no-trace": common.no_trace,
        "embed-features": common.fields.get("trace.embed_features"),
    }
    refuse_given(recorded, "check records no messages; attack --out does, and check --trace reads them")
    tables: list[Table] = [{}] if common.config is None else read_config(common.config)
    methods = _methods(method)
    attacked = common.setting(attack__methods=methods or None, attack__click_models=click_model or None)
    plan = attacked.plan(protocol="attack", same=True, tables=tables)
    for spec in plan.specs:
        click_attacks(spec.attacks, every=False)  # refuses other attacks
    defenses, eps = _alternatives(common, plan)
    return CheckRunRequest(
        plan=plan,
        defenses=defenses,
        eps=eps,
        sensitivity=common.sensitivity,
        audit={**tables[0].get("audit", {}), **audit},
    )


def _methods(method: list[str] | None) -> tuple[str, ...]:
    from foltr_audit.core.plugins import Attack
    from foltr_audit.evidence.check.subjects import click_attacks

    chosen = click_attacks(methods_of(method) or (), every="all" in (method or ()))
    warn_of_unloadable(Attack)
    return chosen


def _alternatives(common: CommonOptions, plan: Plan) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The chains as defenses of a comparison, and the epsilons of the published chain."""
    if common.eps:
        finite = tuple(dict.fromkeys(eps for eps in common.eps if not math.isinf(eps)))
        without = (NO_DEFENSE,) if len(finite) < len(set(common.eps)) else ()
        return (*without, *(("published",) if finite else ())), finite
    if common.defense:
        return tuple(dict.fromkeys(common.defense)), ()
    return tuple(dict.fromkeys("+".join(spec.defense) for spec in plan.specs)), ()


def _finish(report: CheckReport, outputs: Outputs, place: LimitsPlace) -> None:
    """Write the files, show the outcomes, and exit with the code of the outcomes."""
    from foltr_audit.report.check import outcome_line, text_in, write

    problem = None
    for form, file in outputs.files:
        try:
            write_file("--format", file, partial(write, form, report, place))
        except FoltrAuditError as error:  # the verdict is not lost with a file
            problem = problem or error
    if outputs.shown == "table":
        report.show(stdout_console())
    else:
        print_line(text_in(outputs.shown, report, place).rstrip("\n"))
    warn(report.coded_warnings, full=False, how="--json", always=["truth"])
    for status in ("broken", "not judged"):
        for row in report.of_status(status):
            note(f"{status}: {outcome_line(row)}")
    if problem is not None:
        raise problem
    if not report.passes:
        raise typer.Exit(1)


def _verify(file: Path, common: CommonOptions, sample: int | None, jobs: int | None, *, every: bool) -> None:
    import secrets

    from foltr_audit.evidence.verification import SAMPLE, DataPlaces, verify
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.report.check import print_verification, remake_results

    seed = common.fields.get("seed")
    if every and sample is not None:
        raise UsageError("--all and --sample: give one or the other")
    if sample is not None and sample < 0:
        raise UsageError(f"--sample: {sample}; expected 0 or more")
    if seed is not None and not 0 <= seed < 2**63:
        raise UsageError(f"--seed: {seed}; expected 0 to 2^63 - 1")
    outcome = verify(
        file,
        sample=None if every else SAMPLE if sample is None else sample,
        seed=secrets.randbelow(2**32) if seed is None else seed,
        remake=remake_results,
        places=DataPlaces(common.fields.get("data.source"), common.fields.get("data.intents")),
        workers=Workers(jobs=jobs),
        progress=on_terminal(),
    )
    show(lambda: json_text(outcome), partial(print_verification, outcome), json=common.json)
    if outcome["verdict"] != "verified":
        raise typer.Exit(1)
