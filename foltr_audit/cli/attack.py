"""`foltr-audit attack`: train, let clients send, read their clicks out of it, and say how well."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foltr_audit.cli.common import CommonOptions, listed, takes_common, use_threads
from foltr_audit.cli.given import methods_of, read_text, refuse_others
from foltr_audit.cli.output import note, print_line, save_config, stdout_console, warn, warn_of_unloadable
from foltr_audit.cli.preset_plan import PresetSelection, attack_preset, beside
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.results.attack import AttackReport
    from foltr_audit.report.results.published_extent import PresetComparison

SAME = "same"
_WITH_TRACE = {
    "method",
    "trace",
    "guesses",
    "target",
    "hide",
    "queries",
    "choices",
    "data",
    "intents",
    "seed",
    "json",
    "threads",
}


@takes_common
def attack(
    ctx: typer.Context,
    common: CommonOptions,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="Attack, e.g. olsr; several, or all. Default: olsr, lad, map, or what fits."
        ),
    ] = None,
    click_model: Annotated[
        list[str] | None,
        typer.Option("--click-model", help="How the attacked users click; several. Default: all three."),
    ] = None,
    train_click_model: Annotated[
        str | None,
        typer.Option(
            "--train-click-model",
            help="How users click in training, or same: train under each attacked model. Default: perfect.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="fresh (default): one new client per query; training: the rounds."),
    ] = None,
    attack_on: Annotated[
        str | None, typer.Option("--attack-on", help="Parts whose queries are attacked. Default: vali,test.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="Draws of clicks and noise per query. Default: 1.")
    ] = None,
    min_documents: Annotated[
        int | None, typer.Option("--min-documents", help="Leave shorter queries out. Default: 10.")
    ] = None,
    attack_interactions: Annotated[
        int | None,
        typer.Option("--attack-interactions", help="Interactions behind each attacked message. Default: 1."),
    ] = None,
    lists: Annotated[
        str | None,
        typer.Option(
            "--lists", help="How fresh clients' lists are made: deterministic (default), or sampled."
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            "--view",
            help="individual (default): the server sees each message; aggregate: sums over --repeats clients "
            "who asked the same query; pooled: over the messages of one client in --repeats rounds.",
        ),
    ] = None,
    hide: Annotated[
        list[str] | None,
        typer.Option(
            "--hide", help="What the server does not know, e.g. order,noise; several. See list knowledge."
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            help="Report the attacked lists of these queries one by one: ID,... or a file of ids.",
        ),
    ] = None,
    choices: Annotated[
        int | None,
        typer.Option(
            "--choices", help="Queries that query-id, messages that linkage has to tell apart. Default: 10."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help="Start from a published study, e.g. pham-2022, and show its figures; options override it. "
            "See scenario list.",
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Attack a recorded Run or trace instead of a new run.")
    ] = None,
    guesses: Annotated[
        Path | None,
        typer.Option("--guesses", help="With --trace: write scores and guesses to a .csv or .parquet file."),
    ] = None,
) -> None:
    """Attack what clients send, and report precision and recall beside the claimed epsilon and nDCG.

    By default the experiment of Pham 2022: train, then let one fresh client per query send one update.
    """
    if trace is not None:
        refuse_others(ctx, _WITH_TRACE, "not with --trace, whose messages were sent already")
        use_threads(common.threads)
        changes = {"methods": methods_of(method), "hide": listed(hide), "queries": _named(queries)}
        _attack_trace(trace, target, common, guesses, changes | {"choices": choices})
        return
    if guesses is not None:
        raise UsageError("--guesses: only with --trace")
    if target == "training":
        _only_fresh(
            {
                "--click-model": click_model,
                "--attack-on": attack_on,
                "--repeats": repeats,
                "--min-documents": min_documents,
                "--attack-interactions": attack_interactions,
                "--lists": lists,
                "--view": view if view != "individual" else None,
            }
        )
    given = {
        "attack.methods": methods_of(method),
        "attack.click_models": click_model or None,
        "attack.target": target,
        "attack.on": None if attack_on is None else [part.strip() for part in attack_on.split(",")],
        "attack.repeats": repeats,
        "attack.min_documents": min_documents,
        "attack.interactions": attack_interactions,
        "attack.lists": lists,
        "attack.view": view,
        "attack.hide": listed(hide),
        "attack.queries": _named(queries),
        "attack.choices": choices,
        "train.click_model": None if train_click_model == SAME else train_click_model,
    }
    point = {name: value for name, value in given.items() if value is not None}
    same = train_click_model == SAME
    chosen = None if preset is None else PresetSelection.of(attack_preset(preset), common, point, same=same)
    plan = common.plan(point, protocol="attack", same=same) if chosen is None else chosen.plan
    run_attacks(plan, common, chosen)


def run_attacks(plan: Plan, common: CommonOptions, chosen: PresetSelection | None = None) -> None:
    """Run a plan of attacks, and show and keep its report, beside what a preset says was published.

    Raises:
        FoltrAuditError: something cannot be run or written.
    """
    from foltr_audit.core.plugins import Attack
    from foltr_audit.experiments.runner import Runner, run_plan
    from foltr_audit.report.results.attack import AttackReport
    from foltr_audit.utils.progress import on_terminal

    warn_of_unloadable(Attack)
    output = common.output()
    save_config(common.save_config, plan)
    use_threads(common.threads)
    cells = run_plan(plan, output, Runner(on_terminal()))
    report = AttackReport.of(plan, cells)
    published = None if chosen is None else chosen.comparison(cells)
    if output is not None:
        output.save_results(report.json(beside(published)))
    _show(report, common, published)


def _only_fresh(options: dict[str, object]) -> None:
    for name, value in options.items():
        if value:
            raise UsageError(f"{name}: only with --target fresh; the training rounds have their own options")


def _named(queries: str | None) -> list[str] | None:
    """The query ids of --queries: one a line of a file of that name, or else separated by commas.

    Raises:
        UsageError: a file without text or without ids, or no id at all.
    """
    if queries is None:
        return None
    named = os.path.isfile(queries)
    lines = read_text(Path(queries), "--queries").splitlines() if named else queries.split(",")
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not names:
        raise UsageError(f"--queries: {queries!r}: no query id in it; expected ID,... or a file of ids")
    return names


def _attack_trace(
    path: Path, target: str | None, common: CommonOptions, guesses: Path | None, changes: dict[str, Any]
) -> None:
    from foltr_audit.core.plugins import Attack
    from foltr_audit.experiments.recorded_attack import TraceAttack
    from foltr_audit.report.results.recorded_attack import recorded_report
    from foltr_audit.utils.progress import on_terminal

    recorded = TraceAttack.open(
        path,
        target=target,
        data=common.data,
        seed=common.seed,
        intents=common.intents,
        changes=changes,
    )
    warn_of_unloadable(Attack)
    if guesses is not None:
        for check in () if recorded.has_truth else recorded.facts.values():
            note(check.text)
            for contradiction in check.contradictions:
                note(f"warning: {contradiction}")
        recorded.write_guesses(guesses, on_terminal())
        note(f"wrote {guesses}")
        if not recorded.has_truth:
            note("the trace holds no truth: nothing was scored")
            return
    _show(recorded_report(recorded, on_terminal()), common)


def _show(
    report: AttackReport,
    common: CommonOptions,
    published: PresetComparison | None = None,
) -> None:
    """Show the report on stdout, and then its warnings on stderr."""
    if common.json:
        print_line(report.json(beside(published)))
    else:
        _print(report, published)
    warn(row["warning"] for row in report.warnings)


def _print(report: AttackReport, published: PresetComparison | None) -> None:
    from foltr_audit.report.tables.attack import print_attack

    console = stdout_console("" if published is None else published.extent.label)
    if published is not None:
        console.print(published.heading, style="bold", highlight=False, markup=False)
    print_attack(report, console)
    if published is not None:
        console.print()
        published.print(console)
