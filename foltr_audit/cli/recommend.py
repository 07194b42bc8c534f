"""`foltr-audit recommend`: find the defense with the best nDCG@10 within limits of what leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from foltr_audit.auditing.verdict import refuse_contradiction
from foltr_audit.cli.attack import cheats
from foltr_audit.cli.common import ANSWER, IN_CELLS, CommonOptions, open_comparison, shared_but, takes
from foltr_audit.cli.options import Backend, Jobs, Scheduler, option, split_methods
from foltr_audit.cli.output import save_config
from foltr_audit.cli.pages import new_app, page
from foltr_audit.core.settings.defaults import DELTA, TRIALS, VIEW
from foltr_audit.errors import UsageError
from foltr_audit.utils.optional_dependencies import require
from foltr_audit.utils.progress import on_terminal

if TYPE_CHECKING:
    from foltr_audit.experiments.plan import Plan

_LIMITS, _EFFORT = "Limits", "Effort"
_SHARED = shared_but(
    "out resume eps sensitivity defense train.init train.evaluate_every runs trace.every no_trace "
    "trace.embed_features threads"
)
app = new_app()


@app.command(cls=page("recommend"))
@takes(*_SHARED, *IN_CELLS, *ANSWER)
def recommend(
    common: CommonOptions,
    max_eps: float | None = option(
        "Limit of the epsilon that accounting proves for one interaction in a message; inf for no limit. "
        "Required unless --max-proven-auc is given.",
        panel=_LIMITS,
    ),
    max_proven_auc: float | None = option(
        "Limit of the AUC that the proof of one interaction leaves to any attack on a click. "
        "Default: no limit.",
        panel=_LIMITS,
    ),
    max_attack_auc: float | None = option(
        "Limit of the AUC of every attack, which its one-sided 95 % upper bound must not exceed. "
        "Default: no limit.",
        panel=_LIMITS,
    ),
    view: Literal["individual", "individual+lists", "aggregate", "aggregate+lists"] = option(
        "individual: the server sees what each client sends. With secure aggregation that is the sum; a "
        "defense without it has to protect single messages. aggregate: assume that the server sees only sums "
        "of whole cohorts, whatever the defense; then no attack on a message applies. With +lists the "
        "epsilon also has to hold for a server that sees the shown lists.",
        VIEW,
        panel=_LIMITS,
        metavar="TEXT",
    ),
    delta: float = option("Delta of defenses without a pure bound.", DELTA, panel=_LIMITS),
    method: list[str] | None = option("Attack. May be repeated. Default: olsr, lad and map.", panel=_LIMITS),
    candidates: int = option("Number of candidates that the search tries.", 40, panel=_EFFORT),
    search_runs: int = option("Repetitions of each candidate, on the validation split.", 1, panel=_EFFORT),
    runs: int = option("New repetitions of the chosen defense, on the test split.", 3, panel=_EFFORT),
    trials: int = option("Trials per hypothesis of the audit.", TRIALS, panel=_EFFORT),
    click_model: str | None = option("How users click, in training and when attacked. Default: perfect."),
    repeats: int | None = option("Draws of clicks and noise for each attacked query. Default: 1."),
    jobs: Jobs = None,
    backend: Backend = "local",
    scheduler: Scheduler = None,
) -> None:
    """Find the defense with the best nDCG@10 within limits, and check it on the test split.

    The search covers all mechanisms that calibrate knows, with and without secure aggregation, with their
    epsilons and clips. Accounting comes first: a defense without a proof for --view never runs. Candidates
    are compared on the validation split, also with no defense: nDCG@10 has to be shown to fall by at most
    .05. Only the chosen one runs again on the test split, where it is audited. Exit code 1 if no candidate
    meets the limits, or the chosen one does not meet them on the test split. Needs the extra recommend.

    The same seed tries the same candidates, with any number of processes. With --out DIR, --resume reuses
    the finished ones.
    """
    from foltr_audit.experiments.comparison.workers import Workers
    from foltr_audit.experiments.recommend.recommend import SearchBudget
    from foltr_audit.experiments.recommend.recommend import recommend as search
    from foltr_audit.experiments.recommend.space import PrivacyLimits
    from foltr_audit.report.recommend import RecommendReport

    limits = PrivacyLimits.given(
        max_eps=max_eps, max_attack_auc=max_attack_auc, max_proven_auc=max_proven_auc, view=view, delta=delta
    )
    effort = SearchBudget(candidates=candidates, search_runs=search_runs, runs=runs, trials=trials)
    if method and not limits.single:
        raise UsageError(f"--method: attacks read single messages, and --view {view} shows none")
    plan = _plan(common, method, click_model, repeats)
    spec = plan.specs[0] if method else plan.specs[0].with_strong_attacks()
    workers, progress = Workers(backend, jobs, scheduler), on_terminal()
    require("recommend")
    save_config(common.save_config, plan)
    with open_comparison(common) as folder:
        found = search(spec, limits, effort, folder, workers, progress)
        report = RecommendReport.of(found, folder, progress)
        if common.out is not None:
            folder.save_results(report.json())
    common.show(report)
    refuse_contradiction(report.claims)
    if not report.confirmed:
        raise typer.Exit(1)


def _plan(
    common: CommonOptions, method: list[str] | None, click_model: str | None, repeats: int | None
) -> Plan:
    """The single experiment that all options mean."""
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.experiments.recommend.recommend import attacked_as_trained

    if cheats(common):
        raise UsageError(
            f"--server {common.fields['train.server']}: it reads sums of rounds, and recommend attacks "
            "single messages; expected compare"
        )
    if common.fold == "all":
        raise UsageError("--fold all: a query that selects in one fold tests in another; expected one fold")
    attacked = common.setting(
        attack__methods=split_methods(method),
        attack__repeats=repeats or None,
        attack__target="fresh",
        attack__view="individual",
        train__click_model=click_model or None,
    )
    plan = attacked.plan(protocol="attack")
    if len(plan.specs) > 1:
        raise UsageError(f"recommend: {len(plan.specs)} experiments; expected one learner and one world")
    return Plan((attacked_as_trained(plan.specs[0]),))
