"""`foltr-audit recommend`: find the defense with the best nDCG@10 within limits of what leaks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.given import split_methods
from foltr_audit.cli.grid_options import open_comparison
from foltr_audit.cli.options import Backend, Jobs, Scheduler, takes_options
from foltr_audit.cli.output import save_config, show, warn
from foltr_audit.core.spec.defaults import DELTA, TRIALS, VIEW
from foltr_audit.errors import UsageError

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan

_LIMITS, _EFFORT = "Limits", "Effort"
_WITHOUT = (
    *("eps", "sensitivity", "defense", "init", "evaluate_every"),
    *("trace_every", "no_trace", "embed_features", "threads"),
)


@partial(takes_options, without=_WITHOUT)
def recommend(
    common: CommonOptions,
    max_eps: Annotated[
        float,
        typer.Option(
            help="Limit of the epsilon that accounting proves for one interaction in a message; inf for no "
            "limit.",
            rich_help_panel=_LIMITS,
        ),
    ],
    max_attack_auc: Annotated[
        float | None,
        typer.Option(
            help="Limit of the AUC of the best attack; the upper end of its 95 % interval must not exceed "
            "it. Default: no limit.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    view: Annotated[
        Literal["individual", "individual+lists", "aggregate", "aggregate+lists"],
        typer.Option(
            help="individual: the server sees what each client sends. With secure aggregation that is the "
            "sum; a defense without it has to protect single messages. aggregate: assume that the server "
            "sees only sums of whole cohorts, whatever the defense; then no attack on a message applies. "
            "With +lists the epsilon also has to hold for a server that sees the shown lists.",
            rich_help_panel=_LIMITS,
        ),
    ] = VIEW,
    delta: Annotated[
        float, typer.Option(help="Delta of defenses without a pure bound.", rich_help_panel=_LIMITS)
    ] = DELTA,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Attack. May be repeated. Default: olsr, lad and map.", rich_help_panel=_LIMITS),
    ] = None,
    candidates: Annotated[
        int, typer.Option(help="Number of candidates that the search tries.", rich_help_panel=_EFFORT)
    ] = 40,
    search_runs: Annotated[
        int,
        typer.Option(help="Repetitions of each candidate, on the validation part.", rich_help_panel=_EFFORT),
    ] = 1,
    runs: Annotated[
        int,
        typer.Option(
            help="New repetitions of the chosen defense, on the test part.", rich_help_panel=_EFFORT
        ),
    ] = 3,
    trials: Annotated[
        int, typer.Option(help="Trials per hypothesis of the audit.", rich_help_panel=_EFFORT)
    ] = TRIALS,
    click_model: Annotated[
        str | None,
        typer.Option(help="How users click, in training and when attacked. Default: perfect."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Draws of clicks and noise for each attacked query. Default: 1.")
    ] = None,
    jobs: Jobs = None,
    backend: Backend = "local",
    scheduler: Scheduler = None,
) -> None:
    """Search for the defense with the best nDCG@10 within limits, and check it on new data.

    The search covers all mechanisms that calibrate knows, with and without secure aggregation, with their
    epsilons and clips. Accounting comes first: a defense without a proof for --view never runs. Candidates
    are compared on the validation part. Only the chosen one runs again on the test part, where it is
    audited. Exit code 1 if no candidate meets the limits, or the chosen one does not meet them on the test
    part. Needs the extra recommend.

    The same seed tries the same candidates, with any number of processes. With --out DIR, --resume reuses
    the finished ones.
    """
    from foltr_audit.auditing.verdict import refuse_contradiction
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.experiments.recommend.limits import PrivacyLimits
    from foltr_audit.experiments.recommend.recommend import SearchBudget, recommend
    from foltr_audit.report.results.recommend import RecommendReport
    from foltr_audit.report.tables.recommend import print_recommend
    from foltr_audit.utils.optional_dependencies import require
    from foltr_audit.utils.progress import on_terminal

    limits = PrivacyLimits(max_eps=max_eps, max_auc=max_attack_auc, view=view, delta=delta)
    effort = SearchBudget(candidates=candidates, search_runs=search_runs, runs=runs, trials=trials)
    if method and not limits.single:
        raise UsageError(f"--method: attacks read single messages, and --view {view} shows none")
    plan = _plan(common, method, click_model, repeats)
    workers = Workers(backend, jobs, scheduler)
    require("recommend")
    save_config(common.save_config, plan)
    with open_comparison(common) as folder:
        progress = on_terminal()
        spec = plan.specs[0] if method else plan.specs[0].with_strong_attacks()
        found = recommend(spec, limits, effort, folder, workers, progress)
        report = RecommendReport.of(found, folder, progress)
        folder.save_results(report.json())
    show(report.json, partial(print_recommend, report), json=common.json)
    warn(row.warning for row in report.warnings)
    refuse_contradiction(row.plain() for row in report.claims)
    if not report.confirmed:
        raise typer.Exit(1)


def _plan(
    common: CommonOptions, method: list[str] | None, click_model: str | None, repeats: int | None
) -> Plan:
    """The single experiment that all options mean."""
    from foltr_audit.core.plugins import Attack
    from foltr_audit.core.plugins.registry import make
    from foltr_audit.core.spec.attack import AttackSpec, changed_protocol
    from foltr_audit.experiments.plan import Plan

    if common.fold == "all":
        raise UsageError("--fold all: a query that selects in one fold tests in another; expected one fold")
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
            raise UsageError(f"--method: {text} infers the {asks}; expected attacks that infer clicks")
    return Plan((spec.model_copy(update={"attack": protocol}),))
