"""The search for a defense, from what is asked to its report: what `recommend` answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import NOT_SAVED, Attacks, make, refuse_fleeting
from foltr_audit.core.settings.attack import AttackSpec, changed_protocol
from foltr_audit.core.settings.defaults import DELTA, TRIALS, VIEW
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.folder import ComparisonFolder, comparison_folder
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.recommend.recommend import SearchBudget
from foltr_audit.experiments.recommend.recommend import recommend as search
from foltr_audit.experiments.recommend.space import PrivacyLimits
from foltr_audit.report.results.recommend import RecommendReport
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.optional_dependencies import require
from foltr_audit.utils.progress import SILENT, Progress


def attacked_as_trained(spec: Spec) -> Spec:
    """The experiment of a search: users click in training as where fresh clients are attacked.

    Raises:
        UsageError: an attack that does not infer clicks.
    """
    protocol = changed_protocol(spec.attack or AttackSpec(), {"click_models": [spec.train.click_model]})
    for text in protocol.methods_on(spec.message_kind):
        asks = make(Attack, text).asks
        if asks != "clicks":
            raise UsageError(f"--method: {text} infers the {asks}; expected attacks that infer clicks")
    return spec.model_copy(update={"attack": protocol})


def recommend_defense(
    spec: Spec,
    limits: PrivacyLimits,
    effort: SearchBudget,
    folder: ComparisonFolder,
    workers: Workers,
    progress: Progress = SILENT,
    *,
    only_named: bool,
) -> RecommendReport:
    """Search, confirm and report; cells and results stay in the folder.

    Args:
        spec: the experiment as `attacked_as_trained` makes it; its own defense does not matter.
        limits: what the defense must keep.
        effort: how much is run.
        folder: where cells are stored.
        workers: who runs them.
        progress: shows every cell.
        only_named: whether only the attacks that the Spec names run; else the default ones do, too.

    Raises:
        UsageError: messages that no bound is known for, or the extra is not installed.
        FoltrAuditError: the folder cannot be written, or no candidate at all could be run.
    """
    found = search(
        spec if only_named else spec.with_strong_attacks(), limits, effort, folder, workers, progress
    )
    report = RecommendReport.of(found, folder, progress)
    folder.save_results(report.json())
    return report


@names_arguments
def recommend(
    spec: Spec | Mapping[str, object] | None = None,
    *,
    max_eps: float | None = None,
    max_attack_auc: float | None = None,
    max_proven_auc: float | None = None,
    view: Literal["individual", "individual+lists", "aggregate", "aggregate+lists"] = VIEW,
    delta: float = DELTA,
    methods: Attacks | None = None,
    candidates: int = 40,
    search_runs: int = 1,
    runs: int = 3,
    trials: int = TRIALS,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    jobs: int | None = None,
) -> RecommendReport:
    """Search for the defense with the best nDCG@10 within limits, and check it on new data.

    Args:
        spec: the experiment; its own defense does not matter. None for the default one.
        max_eps: limit of the epsilon that is proven for one interaction in a message; inf for no limit.
        max_attack_auc: limit of the upper end of the interval of the best attack's AUC.
        max_proven_auc: limit of the AUC that the proof leaves to any attack on a click.
        view: what the server sees, as `--view` of `recommend`.
        delta: of defenses without a pure bound.
        methods: attacks that alone run; None for those of the Spec and the strong ones.
        candidates: number of candidates that the search tries.
        search_runs: repetitions of each, on the validation split.
        runs: new repetitions of the chosen defense, on the test split.
        trials: trials per hypothesis of its audit.
        out: folder that stores every cell; without one nothing is stored.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.
        jobs: processes; None for one per core.

    Returns:
        A report whose `recommended` is the defense, and `confirmed` says whether it held on the test split.

    Raises:
        UsageError: no limit, a value out of range, or the extra `recommend` is not installed.
    """
    limits = PrivacyLimits.given(
        max_eps=max_eps,
        max_attack_auc=max_attack_auc,
        max_proven_auc=max_proven_auc,
        view=view,
        delta=delta,
    )
    effort = SearchBudget(candidates=candidates, search_runs=search_runs, runs=runs, trials=trials)
    require("recommend")
    asked = spec if isinstance(spec, Spec) else Spec.parse({"attack": {}, **(spec or {})}, "")
    base = attacked_as_trained(asked if methods is None else asked.having({"attack.methods": methods}))
    if out is not None:
        refuse_fleeting(base.table(), NOT_SAVED)
    with comparison_folder(None if out is None else Path(out), resume=resume, overwrite=overwrite) as folder:
        return recommend_defense(
            base, limits, effort, folder, Workers(jobs=jobs), only_named=methods is not None
        )
