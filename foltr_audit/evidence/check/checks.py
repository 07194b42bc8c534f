"""Checks of a new run, a recorded one and a comparison: what is held against the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from foltr_audit.core.settings.attack import changed_protocol
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.evidence.check.fresh_runs import CheckRunRequest, run_fresh, with_strong_attacks
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import CheckSubject
from foltr_audit.evidence.check.recorded_runs import recorded_config, recorded_subjects
from foltr_audit.evidence.check.subjects import ComparedSubjects, untried_warnings
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.progress import SILENT, Progress


class Checked(NamedTuple):
    """What was held against limits.

    Attributes:
        limits: the limits.
        subjects: what they were held against.
        config: what was run or read, as a plain table.
        warnings: about what was run or read.
    """

    limits: SystemLimits
    subjects: Sequence[CheckSubject]
    config: Mapping[str, JsonValue]
    warnings: Sequence[CodedWarning] = ()

    def every_warning(self) -> list[CodedWarning]:
        """Each warning once, also about attacks that were refused."""
        refused = [
            coded("refused attack", f"{subject.name}: {name} could not run and is not judged: {why}")
            for subject in self.subjects
            if self.limits.max_attack_auc is not None and not subject.all_attacks
            for name, why in subject.refused.items()
        ]
        return list(dict.fromkeys((*self.warnings, *refused)))


def check_fresh(
    limits: SystemLimits,
    request: CheckRunRequest,
    folder: ComparisonFolder,
    progress: Progress = SILENT,
    *,
    named: bool,
    every: bool,
) -> Checked:
    """Run a request, and hold what it finds against the limits.

    Args:
        limits: the limits.
        request: what to run.
        folder: where cells are stored.
        progress: shows every cell.
        named: whether only the attacks of the request run; else the default ones do, too.
        every: whether these are all attacks there are, of which some may not fit.

    Raises:
        UsageError: a cell cannot run, or no limit could be judged.
        FoltrAuditError: the folder cannot be written.
    """
    if not named:
        request = replace(request, plan=with_strong_attacks(request.plan))
    run_fresh(request, limits, folder, progress)
    found = ComparedSubjects.read(folder, request.grid(limits).defenses, progress=progress)
    untried = untried_warnings(request.plan) if limits.max_attack_auc is not None else ()
    warnings = [*untried, *found.warnings()]
    return Checked(limits, found.subjects(limits, all_attacks=not every), found.config, warnings)


def check_comparison(
    limits: SystemLimits,
    path: Path,
    defenses: Sequence[str] = (),
    eps: Sequence[float] = (),
    progress: Progress = SILENT,
) -> Checked:
    """Check rows of a finished comparison: those of some defenses and epsilons, or all except no defense.

    Raises:
        UsageError: no such comparison or row.
        TraceError: it is damaged.
    """
    found = ComparedSubjects.read(ComparisonFolder.open(path), defenses, eps, progress)
    return Checked(limits, found.subjects(limits), found.config, list(found.warnings()))


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
) -> Checked:
    """Check a recorded Run or trace; see `recorded_subjects`, and `every` as for `check_fresh`.

    Raises:
        UsageError: the folder or the data do not exist, or no attack can run.
        TraceError: it is damaged.
    """
    recorded = TraceAttack.open(path, data=data, seed=seed, intents=intents)
    protocol = recorded.protocol.strengthened(recorded.header.content)
    if methods:
        protocol = changed_protocol(protocol, {"methods": tuple(methods)})
    recorded = replace(recorded, protocol=protocol)
    subjects = recorded_subjects(recorded, limits, all_attacks=not every, progress=progress)
    return Checked(limits, subjects, recorded_config(recorded))
