"""`foltr-audit recommend`: the defense with the best nDCG@10 that keeps to limits on what leaks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foltr_audit.cli import options as o
from foltr_audit.cli.common import CommonOptions, takes_common
from foltr_audit.cli.given import split_methods
from foltr_audit.cli.grid_options import kept_comparison
from foltr_audit.cli.output import print_line, save_config, stdout_console, warn
from foltr_audit.core.spec.base import DELTA, TRIALS, VIEW
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.report.results.recommend import RecommendReport

_LIMITS, _EFFORT = "Limits", "Effort"
_WITHOUT = (
    *("eps", "sensitivity", "defense", "init", "evaluate_every"),
    *("trace_every", "no_trace", "embed_features", "threads"),
)


@partial(takes_common, without=_WITHOUT)
def recommend(
    common: CommonOptions,
    max_eps: Annotated[
        float,
        typer.Option(
            "--max-eps",
            help="Most epsilon of a message for one interaction that accounting may prove; inf: no limit.",
            rich_help_panel=_LIMITS,
        ),
    ],
    max_attack_auc: Annotated[
        float | None,
        typer.Option(
            "--max-attack-auc",
            help="Most AUC of the best attack: the upper end of its 95 % interval has to keep to it. "
            "Default: no limit.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    view: Annotated[
        Literal["individual", "individual+lists", "aggregate", "aggregate+lists"],
        typer.Option(
            "--view",
            help="individual: a server that sees what each client sends; behind secure aggregation that is "
            "the sum, and a defense without it has to protect single messages. aggregate: take for granted "
            "that whoever looks gets sums of whole cohorts only, whatever the defense; no attack on a "
            "message applies. With +lists the epsilon has to hold for a server that sees the shown lists "
            "too.",
            rich_help_panel=_LIMITS,
        ),
    ] = VIEW,
    delta: Annotated[
        float, typer.Option("--delta", help="Delta of what has no pure bound.", rich_help_panel=_LIMITS)
    ] = DELTA,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Attack; several. Default: olsr, lad, map.", rich_help_panel=_LIMITS),
    ] = None,
    candidates: Annotated[
        int, typer.Option("--candidates", help="Candidates that the search tries.", rich_help_panel=_EFFORT)
    ] = 40,
    search_runs: Annotated[
        int,
        typer.Option(
            "--search-runs",
            help="Repetitions of each candidate, on the validation part.",
            rich_help_panel=_EFFORT,
        ),
    ] = 1,
    runs: Annotated[
        int,
        typer.Option(
            "--runs",
            help="Fresh repetitions of the chosen one, on the test part.",
            rich_help_panel=_EFFORT,
        ),
    ] = 3,
    trials: Annotated[
        int,
        typer.Option("--trials", help="Trials per hypothesis of its audit.", rich_help_panel=_EFFORT),
    ] = TRIALS,
    click_model: Annotated[
        str | None,
        typer.Option("--click-model", help="How users click, in training and attacked. Default: perfect."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", help="Draws of clicks and noise per attacked query. Default: 1."),
    ] = None,
    jobs: o.Jobs = None,
    backend: o.Backend = "local",
    scheduler: o.Scheduler = None,
) -> None:
    """Search for the defense with the best nDCG@10 that keeps to limits, and check it on fresh data.

    Searched are all mechanisms that calibrate knows, with and without secure aggregation, their epsilons and
    clips. Accounting comes first: what cannot be proven for --view is never run. Candidates are judged on the
    validation part; the chosen one alone is run anew on the test part, and audited. Exit code 1 if none keeps
    to the limits, or the chosen one does not on the test part. Needs the extra recommend.

    The same seed asks for the same candidates, however many processes run: with --out DIR, --resume finds
    what is done.
    """
    from foltr_audit.auditing.verdict import refuse_contradiction
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.experiments.recommend.limits import PrivacyLimits
    from foltr_audit.experiments.recommend.recommend import SearchBudget, recommend
    from foltr_audit.report.results.recommend import RecommendReport
    from foltr_audit.utils.optional_dependencies import require

    limits = PrivacyLimits(max_eps=max_eps, max_auc=max_attack_auc, view=view, delta=delta)
    effort = SearchBudget(candidates=candidates, search_runs=search_runs, runs=runs, trials=trials)
    if method and not limits.single:
        raise UsageError(f"--method: attacks read single messages, and --view {view} grants none")
    plan = _plan(common, method, click_model, repeats)
    workers = Workers(backend, jobs, scheduler)
    require("recommend")
    save_config(common.save_config, plan)
    with kept_comparison(common) as folder:
        from foltr_audit.utils.progress import on_terminal

        progress = on_terminal()
        spec = plan.specs[0] if method else plan.specs[0].with_strong_attacks()
        found = recommend(spec, limits, effort, folder, workers, progress)
        report = RecommendReport.of(found, folder, progress)
        folder.save_results(report.json())
    _show(report, json=common.json)
    refuse_contradiction(report.claims)
    if not report.confirmed:
        raise typer.Exit(1)


def _show(report: RecommendReport, *, json: bool) -> None:
    from foltr_audit.report.tables.recommend import print_recommend

    if json:
        print_line(report.json())
    else:
        print_recommend(report, stdout_console())
    warn(row["warning"] for row in report.warnings)


def _plan(
    common: CommonOptions, method: list[str] | None, click_model: str | None, repeats: int | None
) -> Plan:
    """The one experiment that all options mean."""
    from foltr_audit.core.plugins import Attack
    from foltr_audit.core.plugins.registry import make
    from foltr_audit.core.spec.attack import AttackSpec, changed_protocol
    from foltr_audit.experiments.plan import Plan

    if common.fold == "all":
        raise UsageError(
            "--fold all: a query that chooses in one fold is tested on in another; expected one fold"
        )
    given: dict[str, object] = {
        "attack.methods": split_methods(method),
        "attack.repeats": repeats,
        "attack.target": "fresh",
        "attack.view": "individual",
        "train.click_model": click_model,
    }
    plan = common.plan({name: value for name, value in given.items() if value}, protocol="attack")
    if len(plan.specs) > 1:
        raise UsageError(f"recommend: {len(plan.specs)} experiments; expected one learner and one world")
    spec = plan.specs[0]
    protocol = changed_protocol(spec.attack or AttackSpec(), {"click_models": [spec.train.click_model]})
    for text in protocol.methods_on(spec.message_kind):
        asks = make(Attack, text).asks
        if asks != "clicks":
            raise UsageError(f"--method: {text} tells the {asks}; expected attacks that tell clicks")
    return Plan((spec.model_copy(update={"attack": protocol}),))
