"""Checks of a new run, a recorded one and a comparison: what is held against the limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from foltr_audit.core.settings.attack import changed_protocol
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.fresh_runs import CheckRunRequest, run_fresh, with_strong_attacks
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import CheckSubject, LimitOutcome, outcomes
from foltr_audit.evidence.check.recorded_runs import recorded_config, recorded_subjects
from foltr_audit.evidence.check.subjects import ComparedSubjects, untried_warnings
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.progress import SILENT, Progress
from foltr_audit.utils.reading import file_text


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

    def outcomes(self) -> list[LimitOutcome]:
        """As `outcomes.outcomes`."""
        return outcomes(self.limits, self.subjects)

    def every_warning(self) -> list[CodedWarning]:
        """Each warning once, also about attacks that were refused."""
        return list(dict.fromkeys((*self.warnings, *self._refused())))

    def _refused(self) -> Iterator[CodedWarning]:
        for subject in self.subjects:
            if self.limits.max_attack_auc is not None and not subject.all_attacks:
                for name, why in subject.refused.items():
                    text = f"{subject.name}: {name} could not run and is not judged: {why}"
                    yield coded("refused attack", text)


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
    warnings = [*_untried_warnings(limits, request.plan), *found.warnings()]
    return Checked(limits, found.subjects(limits, all_attacks=not every), found.config, warnings)


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
