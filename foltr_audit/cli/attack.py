"""`foltr-audit attack`: train, let clients send messages, and measure how well attacks recover the clicks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from foltr_audit.cli.common import (
    ANSWER,
    ATTACK,
    SHARED,
    CommonOptions,
    check_pictures,
    field_flags,
    takes,
    use_threads,
)
from foltr_audit.cli.options import KNOW_HELP, drawing, option, refuse_given, refuse_others, words
from foltr_audit.cli.output import note, print_line, warn, warn_of_unloadable
from foltr_audit.cli.pages import new_app, page
from foltr_audit.cli.runs import PresetSelection, attack_preset, print_beside, published_table, store
from foltr_audit.cli.user_code import named_client_step, no_result_printed
from foltr_audit.core.warning_kinds import coded
from foltr_audit.errors import UsageError
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.attack import AttackReport
    from foltr_audit.report.presets import PresetComparison

SAME = "same"  # of --train-click-model: train under each attacked click model
WITH_TRACE = words(
    "method trace know client_step guesses target view hide queries choices colluders data intents seed "
    "json threads full quiet plot"
)
_ONLY_FRESH = words("click_models on repeats min_documents interactions lists view")
RECORDED = "Recorded messages"  # the part of the help with the options of --trace

app = new_app()


@app.command(cls=page("attack"))
@takes(*ATTACK, *SHARED, *ANSWER)
def attack(
    ctx: typer.Context,
    common: CommonOptions,
    preset: str | None = option(
        "Start from a published study, e.g. pham-2022, and show its figures. Options override it. "
        "See foltr-audit study list."
    ),
    plot: list[Path] | None = drawing("Draw precision, recall, AUC and nDCG@10 against epsilon"),
    trace: Path | None = option(
        "Attack a recorded Run or trace instead of a new run.", metavar="DIR", panel=RECORDED
    ),
    know: list[str] | None = option(KNOW_HELP, metavar="NAME=VALUE", panel=RECORDED),
    client_step: str | None = option(
        "What the clients compute, if it is not PDGD: a registered client step, or a function "
        "step(model, features, clicks) as MODULE:FUNCTION or FILE.py:FUNCTION.",
        panel=RECORDED,
    ),
    guesses: Path | None = option("Write scores and guesses to a .csv or .parquet file.", panel=RECORDED),
) -> None:
    """Attack what clients send, and report precision and recall with the claimed epsilon and nDCG.

    By default this is the experiment of Pham 2022: train, then let one new client per query send one update.
    """
    if trace is not None:
        refuse_others(ctx, WITH_TRACE, "not with --trace, whose messages were sent already")
        use_threads(common.threads)
        _attack_trace(trace, common, know or [], client_step, guesses, plot or ())
        return
    refuse_given({"know": know, "client-step": client_step, "guesses": guesses}, "only with --trace")
    if common.fields.get("attack.target") == "training" or cheats(common):
        _refuse_fresh(common)
    same = common.fields.get("train.click_model") == SAME
    common = common.setting(train__click_model=None) if same else common
    chosen = None if preset is None else PresetSelection.of(attack_preset(preset), common, same=same)
    plan = common.plan(protocol="attack", same=same) if chosen is None else chosen.plan
    run_attacks(plan, common, plot or (), chosen)


def run_attacks(
    plan: Plan, common: CommonOptions, pictures: Sequence[Path] = (), chosen: PresetSelection | None = None
) -> None:
    """Run a plan of attacks, show and save its report, and compare it with the figures of a preset."""
    from foltr_audit.core.plugins import Attack
    from foltr_audit.report.attack import AttackReport

    warn_of_unloadable(Attack)
    report, cells, published = store(plan, common, AttackReport.of, pictures=pictures, chosen=chosen)
    parts = () if chosen is None else chosen.reports(AttackReport.of, cells)
    _show(report, common, pictures, published, parts)


def cheats(common: CommonOptions) -> bool:
    """Whether a server is named that isolates clients in sums of training rounds, which are then attacked."""
    from foltr_audit.core.plugins import Server
    from foltr_audit.core.plugins.registry import make

    named = common.fields.get("train.server")
    return isinstance(named, str) and make(Server, named).isolates


def _refuse_fresh(common: CommonOptions) -> None:
    """Refuse options that only describe fresh clients; views of messages and of rounds are of others too."""
    given = common.of_table("attack")
    for name in _ONLY_FRESH:
        if given.get(name) and not (name == "view" and given[name] not in ("pooled", "cohort")):
            flag = field_flags()[f"attack.{name}"]
            raise UsageError(f"{flag}: only with --target fresh; the training rounds have their own options")


def _attack_trace(
    path: Path,
    common: CommonOptions,
    know: Sequence[str],
    client_step: str | None,
    guesses: Path | None,
    pictures: Sequence[Path],
) -> None:
    from foltr_audit.core.plugins import Attack
    from foltr_audit.experiments.recorded_attack import TraceAttack
    from foltr_audit.report.attack import recorded_report
    from foltr_audit.trace.facts import parse_facts

    check_pictures(pictures, None)
    given = common.fields
    recorded = TraceAttack.open(
        path,
        target=given.get("attack.target"),
        data=given.get("data.source"),
        seed=given.get("seed"),
        intents=given.get("data.intents"),
        changes={
            name: given.get(f"attack.{name}")
            for name in ("methods", "view", "hide", "queries", "choices", "colluders")
        },
        know=parse_facts(know),
        client_step=named_client_step(client_step),
    )
    warn_of_unloadable(Attack)
    if guesses is not None:
        # Without a truth nothing scores the guesses, so wrong facts would go unnoticed: show their check.
        for check in () if recorded.has_truth else recorded.facts.values():
            note(check.text)
            for contradiction in check.contradictions:
                warn([coded("facts", contradiction)])
        with no_result_printed():
            recorded.write_guesses(guesses, on_terminal())
        note(f"wrote {guesses}")
        if not recorded.has_truth:
            note("the trace holds no truth: nothing was scored")
            return
    with no_result_printed():
        report = recorded_report(recorded, on_terminal())
    _show(report, common, pictures)


def _show(
    report: AttackReport,
    common: CommonOptions,
    pictures: Sequence[Path],
    published: PresetComparison | None = None,
    readings: Iterable[tuple[str, AttackReport]] = (),
) -> None:
    """Show the report on stdout, or those of the readings of a study, and then its warnings on stderr."""
    from foltr_audit.report.attack import AttackReport

    if common.json:
        print_line(report.json(published_table(published)))
    else:
        brief = partial(AttackReport.show_short, quiet=common.quiet)
        print_beside(published, [*readings] or [("", report)], AttackReport.show if common.full else brief)
    always = ("facts", "truth")
    warn(report.coded_warnings, full=common.full, quiet=common.quiet, always=always)
    for picture in pictures:
        report.save(picture)
