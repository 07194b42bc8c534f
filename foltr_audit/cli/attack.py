"""`foltr-audit attack`: train, let clients send, read their clicks out of it, and say how well."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foltr_audit.cli.common import Common, takes_common, use_threads
from foltr_audit.cli.output import note, print_line, save_config, stdout_console
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.report.attack import AttackReport

SAME = "same"
_WITH_TRACE = {"method", "trace", "guesses", "target", "data", "seed", "json", "threads"}


@takes_common
def attack(
    ctx: typer.Context,
    common: Common,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Attack, e.g. olsr; several, or all. Default: olsr."),
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
        _refuse_others(ctx)
        use_threads(common.threads)
        _attack_trace(trace, _methods(method), target, common, guesses)
        return
    if guesses is not None:
        raise UsageError("--guesses: only with --trace")
    from foltr_audit.progress import on_terminal
    from foltr_audit.report.attack import AttackReport
    from foltr_audit.study import Study, run_plan

    if target == "training":
        _only_fresh(
            {
                "--click-model": click_model,
                "--attack-on": attack_on,
                "--repeats": repeats,
                "--min-documents": min_documents,
            }
        )
    given = {
        "attack.methods": _methods(method),
        "attack.click_models": click_model or None,
        "attack.target": target,
        "attack.on": None if attack_on is None else [part.strip() for part in attack_on.split(",")],
        "attack.repeats": repeats,
        "attack.min_documents": min_documents,
        "train.click_model": None if train_click_model == SAME else train_click_model,
    }
    point = {name: value for name, value in given.items() if value is not None}
    plan = common.plan(point, attacks=True, same=train_click_model == SAME)
    output = common.output()
    save_config(common.save_config, plan)
    use_threads(common.threads)
    report = AttackReport.of(plan, run_plan(plan, output, Study(on_terminal())))
    if output is not None:
        output.save_results(report.json())
    _show(report, common)


def _only_fresh(options: dict[str, object]) -> None:
    for name, value in options.items():
        if value:
            raise UsageError(f"{name}: only with --target fresh; the training rounds have their own options")


def _methods(given: list[str] | None) -> list[str] | None:
    """The attacks of --method, with `all` spelt out; None if it was not given."""
    if not given:
        return None
    if "all" not in given:
        return given
    from foltr_audit.plugins import Attack
    from foltr_audit.registry import names

    return list(
        dict.fromkeys(name for text in given for name in (names(Attack) if text == "all" else [text]))
    )


def _refuse_others(ctx: typer.Context) -> None:
    for parameter in ctx.command.params:
        name = str(parameter.name)
        source = ctx.get_parameter_source(name)
        if name not in _WITH_TRACE and source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{parameter.opts[0]}: not with --trace, whose messages were sent already")


def _attack_trace(
    path: Path, methods: list[str] | None, target: str | None, common: Common, guesses: Path | None
) -> None:
    from foltr_audit.progress import on_terminal
    from foltr_audit.recorded import Recorded

    recorded = Recorded.open(path, target=target, data=common.data, methods=methods, seed=common.seed)
    if guesses is not None:
        recorded.write_guesses(guesses, on_terminal())
        note(f"wrote {guesses}")
        if not recorded.has_truth:
            note("the trace holds no truth: nothing was scored")
            return
    _show(recorded.report(on_terminal()), common)


def _show(report: AttackReport, common: Common) -> None:
    if common.json:
        print_line(report.json())
        return
    from foltr_audit.report.tables import print_attack

    print_attack(report, stdout_console())
