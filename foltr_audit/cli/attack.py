"""`foltr-audit attack`: train, let clients send messages, and measure how well attacks recover the clicks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.common import CommonOptions, use_threads
from foltr_audit.cli.given import refuse_others
from foltr_audit.cli.options import Table, takes_options
from foltr_audit.cli.output import note, print_line, save_config, warn, warn_of_unloadable
from foltr_audit.cli.preset_plan import PresetSelection, attack_preset, print_published, published_table
from foltr_audit.cli.protocol_options import SAME, AttackOptions
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.results.attack import AttackReport
    from foltr_audit.report.results.published_extent import PresetComparison

_WITH_TRACE = {
    *("method", "trace", "guesses", "target", "hide", "queries", "choices"),
    *("data", "intents", "seed", "json", "threads"),
}
_ONLY_FRESH = (
    *("--click-model", "--attack-on", "--repeats", "--min-documents", "--attack-interactions", "--lists"),
    "--view",
)


@takes_options
def attack(
    ctx: typer.Context,
    protocol: AttackOptions,
    common: CommonOptions,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Start from a published study, e.g. pham-2022, and show its figures. Options override it. "
            "See scenario list.",
        ),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Attack a recorded Run or trace instead of a new run.")
    ] = None,
    guesses: Annotated[
        Path | None, typer.Option(help="With --trace: write scores and guesses to a .csv or .parquet file.")
    ] = None,
) -> None:
    """Attack what clients send, and report precision and recall with the claimed epsilon and nDCG.

    By default this is the experiment of Pham 2022: train, then let one new client per query send one update.
    """
    if trace is not None:
        refuse_others(ctx, _WITH_TRACE, "not with --trace, whose messages were sent already")
        use_threads(common.threads)
        _attack_trace(trace, protocol, common, guesses)
        return
    if guesses is not None:
        raise UsageError("--guesses: only with --trace")
    point = protocol.point()
    if protocol.target == "training":
        _refuse_fresh(point)
    same = protocol.train_click_model == SAME
    chosen = None if preset is None else PresetSelection.of(attack_preset(preset), common, point, same=same)
    plan = common.plan(point, protocol="attack", same=same) if chosen is None else chosen.plan
    run_attacks(plan, common, chosen)


def run_attacks(plan: Plan, common: CommonOptions, chosen: PresetSelection | None = None) -> None:
    """Run a plan of attacks, show and save its report, and compare it with the figures of a preset.

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
        output.save_results(report.json(published_table(published)))
    _show(report, common, published)


def _refuse_fresh(point: Table) -> None:
    """Refuse options that only describe fresh clients; `--view individual` describes every round too."""
    given = {AttackOptions.flags()[name]: value for name, value in point.items()}
    for name in _ONLY_FRESH:
        if given.get(name) and not (name == "--view" and given[name] == "individual"):
            raise UsageError(f"{name}: only with --target fresh; the training rounds have their own options")


def _attack_trace(path: Path, protocol: AttackOptions, common: CommonOptions, guesses: Path | None) -> None:
    from foltr_audit.core.plugins import Attack
    from foltr_audit.experiments.recorded_attack import TraceAttack
    from foltr_audit.report.results.recorded_attack import recorded_report
    from foltr_audit.utils.progress import on_terminal

    point = protocol.point()
    recorded = TraceAttack.open(
        path,
        target=protocol.target,
        data=common.data,
        seed=common.seed,
        intents=common.intents,
        changes={name: point.get(f"attack.{name}") for name in ("methods", "hide", "queries", "choices")},
    )
    warn_of_unloadable(Attack)
    if guesses is not None:
        # Without a truth nothing scores the guesses, so wrong facts would go unnoticed: show their check.
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


def _show(report: AttackReport, common: CommonOptions, published: PresetComparison | None = None) -> None:
    """Show the report on stdout, and then its warnings on stderr."""
    from foltr_audit.report.tables.attack import print_attack

    if common.json:
        print_line(report.json(published_table(published)))
    else:
        print_published(published, partial(print_attack, report))
    warn(row.warning for row in report.warnings)
