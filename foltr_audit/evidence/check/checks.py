"""Checks of a new run, a recorded one and a comparison, from the limits to the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import Attacks, texts_of
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.recorded_runs import check_recorded
from foltr_audit.evidence.check.report import CheckReport, warnings_of
from foltr_audit.evidence.check.rerun_audit import CheckRunRequest, run_fresh, with_strong_attacks
from foltr_audit.evidence.check.subjects import chosen_rows, click_attacks, subjects_of, untried_warnings
from foltr_audit.experiments.comparison.folder import INDEX, ComparisonFolder
from foltr_audit.experiments.plan import Plan, trained_on_each
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_text


@names_arguments
def check(
    limits: str | Path | Mapping[str, object],
    subject: Spec | Sequence[Spec] | str | Path,
    *,
    methods: Attacks | None = None,
) -> CheckReport:
    """Check a system against limits, as `foltr-audit check` does.

    Args:
        limits: the table of limits, e.g. `{"max_attack_auc": 0.6}`, or the path of a file with one.
        subject: one or several Specs, which are run; or the path of a recorded Run, a trace or a comparison.
        methods: attacks that alone are to be tried, texts, objects or classes; None for those of the Specs
            and olsr, lad and map, or those that fit.

    Returns:
        A report whose `holds` says whether every limit holds, with one row for each limit.

    Raises:
        UsageError: an unknown limit, or an attack that does not infer clicks.
        TraceError: a damaged trace, Run or comparison.

    Example:
        >>> import foltr_audit as fa
        >>> spec = fa.Spec(data={"source": "synthetic:mq2007:30"}, train={"rounds": 1},
        ...                population={"clients": 10}, attack={"click_models": ["perfect"]})
        >>> fa.check({"max_attack_auc": 0.6}, spec).holds
        False
    """
    given = limits_of(limits)
    chosen = () if methods is None else click_attacks(texts_of(Attack, methods), every=False)
    if isinstance(subject, str | Path):
        path = Path(subject)
        if (path / INDEX).is_file():
            if chosen:
                raise UsageError("--method: a comparison was run already; expected none")
            return check_comparison(given, path)
        return check_trace(given, path, chosen)
    specs = (subject,) if isinstance(subject, Spec) else tuple(subject)
    if not specs:
        raise UsageError("no Spec to check; expected at least one")
    protocol = {"attack.methods": chosen} if chosen else {}
    tables = [spec.having(protocol).table() if chosen else {"attack": {}, **spec.table()} for spec in specs]
    plan = Plan.of([cell for table in tables for cell in trained_on_each(table)])
    for spec in plan.specs:
        click_attacks(spec.attacks, every=False)  # refuses other attacks
    request = CheckRunRequest(
        plan=plan,
        defenses=tuple(dict.fromkeys("+".join(spec.defense) for spec in plan.specs)),
        audit={}
        if specs[0].audit is None
        else dict(specs[0].audit.model_dump(mode="json", exclude_none=True)),
    )
    return check_fresh(given, request, named=bool(chosen), every=False)


def limits_of(limits: str | Path | Mapping[str, object]) -> SystemLimits:
    """The limits of a table, or of a file with one.

    Raises:
        UsageError: an unknown limit, a refused value, or no such file.
    """
    if isinstance(limits, Mapping):
        return SystemLimits.parse(limits, "limits")
    return SystemLimits.from_toml(file_text(Path(limits), UsageError), str(limits))


def check_fresh(
    limits: SystemLimits,
    request: CheckRunRequest,
    folder: ComparisonFolder | None = None,
    progress: Progress = SILENT,
    *,
    named: bool,
    every: bool,
) -> CheckReport:
    """Run a request, and check what it finds.

    Args:
        limits: the limits.
        request: what to run.
        folder: where cells and results are stored; None for nowhere.
        progress: shows every cell.
        named: whether only the attacks of the request run; else the default ones do, too.
        every: whether these are all attacks there are, of which some may not fit.

    Raises:
        UsageError: a cell cannot run, or no limit could be judged.
        FoltrAuditError: the folder cannot be written.
    """
    if not named:
        request = replace(request, plan=with_strong_attacks(request.plan))
    found = run_fresh(request, limits, folder, progress)
    if folder is not None:
        folder.save_results(found.json())
    defenses = request.grid(limits).defenses
    subjects = subjects_of(found, defenses, all_attacks=not every)
    names = {row.setting.name for row in found.results if row.setting.alternative in defenses}
    warnings = [*_untried_warnings(limits, request.plan), *warnings_of(found, sorted(names))]
    return CheckReport.of(limits, subjects, found.config, warnings)


def _untried_warnings(limits: SystemLimits, plan: Plan) -> list[CodedWarning]:
    """Warnings about default attacks that were left out."""
    protocols = [(spec.attack, spec.message_kind) for spec in plan.specs]
    if limits.max_attack_auc is None:
        return []
    return [text for one, kind in protocols if one is not None for text in untried_warnings(one, kind)]


def check_comparison(
    limits: SystemLimits,
    path: Path,
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
    progress: Progress = SILENT,
) -> CheckReport:
    """Check rows of a finished comparison: those of some defenses and epsilons, or all except no defense.

    Raises:
        UsageError: no such comparison or row.
        TraceError: it is damaged.
    """
    found = CompareReport.of(ComparisonFolder.open(path), progress=progress)
    names = {row.setting.name for row in chosen_rows(found, defenses, eps)}
    warnings = list(warnings_of(found, sorted(names)))
    return CheckReport.of(limits, subjects_of(found, defenses, eps), found.config, warnings)


def check_trace(
    limits: SystemLimits,
    path: Path,
    methods: Sequence[str] = (),
    progress: Progress = SILENT,
    *,
    every: bool = False,
    data: str | None = None,
    seed: int | None = None,
    intents: str | None = None,
) -> CheckReport:
    """Check a recorded Run or trace; see `check_recorded`, and `every` as for `check_fresh`.

    Raises:
        UsageError: the folder or the data do not exist, or no attack can run.
        TraceError: it is damaged.
    """
    found = check_recorded(
        path,
        limits,
        methods,
        all_attacks=not every,
        data=data,
        seed=seed,
        intents=intents,
        progress=progress,
    )
    return CheckReport.of(limits, found.subjects, found.config)
