"""The Python API, with the same names as the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from foltr_audit.auditing.function_audit import audit_function
from foltr_audit.auditing.function_outputs import Mechanism, T
from foltr_audit.core.client_steps.function_step import StepFunction, as_client_step
from foltr_audit.core.plugins import ClientStep
from foltr_audit.core.plugins.own_classes import NOT_SAVED, refuse_fleeting
from foltr_audit.core.records import Collection
from foltr_audit.core.spec.audit import AuditSpec
from foltr_audit.core.spec.data import DataSpec
from foltr_audit.core.spec.experiment import Spec
from foltr_audit.core.spec.function_audit import FUNCTION_TRIALS, FunctionAuditSpec
from foltr_audit.core.spec.plain_table import validated
from foltr_audit.data.load import load_collection
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.compare import compare as run_grid
from foltr_audit.experiments.comparison.folder import comparison_folder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.lint_subjects import subject_described, subjects_at, subjects_of
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runner import Runner, RunOutput, RunResult, run_plan
from foltr_audit.report.results.attack import AttackReport
from foltr_audit.report.results.audit import AuditReport
from foltr_audit.report.results.coin_audit import CoinAuditReport
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.function_audit import FunctionAuditReport
from foltr_audit.report.results.membership import MembershipReport
from foltr_audit.report.results.recorded_attack import recorded_report
from foltr_audit.report.results.system_lint import SystemLintReport
from foltr_audit.report.results.train import TrainReport
from foltr_audit.report.results.unlearning import UnlearningReport


def load_data(
    source: str,
    *,
    fold: int = 0,
    normalise: str = "zscore",
    dtype: str = "float32",
    seed: int = 1,
    intents: str | None = None,
) -> Collection:
    """Ranking data from a path or `synthetic:NAME[:QUERIES]`, normalised; `intents` as `--intents`.

    Features are parsed and kept as `dtype`, float32 or float64.

    Raises:
        DataError: the files cannot be read as ranking data.
        UsageError: a source, fold or normalization that does not exist.
    """
    data = {"source": source, "fold": fold, "normalise": normalise, "dtype": dtype, "intents": intents}
    spec = Spec.parse({"data": data}, "load_data")
    return load_collection(spec.data, seed)


def simulate(
    specs: Spec | Sequence[Spec],
    *,
    data: Collection | None = None,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    twins: bool = False,
) -> TrainReport:
    """Train the rankers of one or several Specs; protocols in them are ignored.

    Args:
        specs: what to train; several are compared in one report.
        data: a collection to use instead of loading the Specs' own.
        out: folder for traces and models.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.
        twins: also train the twins of each scenario, and compare.
    """
    plan = Plan(tuple(spec.only_trained for spec in _several(specs, data)))
    plan = Runner(data=data).with_twins(plan) if twins else plan
    return TrainReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


def attack(
    specs: Spec | Sequence[Spec],
    *,
    data: Collection | None = None,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> AttackReport:
    """Train and attack one or several Specs; those that differ only in repetition and fold are pooled.

    Arguments as for `simulate`.

    Raises:
        UsageError: a Spec without an attack protocol.
    """
    plan = Plan(_several(specs, data))
    if any(spec.attack is None for spec in plan.specs):
        raise UsageError("attack: a Spec has no attack protocol; expected Spec(..., attack={...})")
    return AttackReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


def audit(
    specs: Spec | Sequence[Spec],
    *,
    data: Collection | None = None,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> AuditReport:
    """Train one or several Specs, and check the claims of their chains with upper and lower bounds.

    Arguments as for `simulate`.

    Raises:
        UsageError: a Spec without an audit protocol.
    """
    plan = Plan(_several(specs, data))
    if any(spec.audit is None for spec in plan.specs):
        raise UsageError("audit: a Spec has no audit protocol; expected Spec(..., audit={...})")
    return AuditReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


def membership(
    specs: Spec | Sequence[Spec],
    *,
    data: Collection | None = None,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> MembershipReport:
    """Train one or several Specs, and tell from global models who took part in such trainings.

    Arguments as for `simulate`.

    Raises:
        UsageError: a Spec without a membership protocol.
    """
    plan = Plan(_several(specs, data))
    if any(spec.membership is None for spec in plan.specs):
        raise UsageError(
            "membership: a Spec has no membership protocol; expected Spec(..., membership={...})"
        )
    return MembershipReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


def unlearn(
    specs: Spec | Sequence[Spec],
    *,
    data: Collection | None = None,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> UnlearningReport:
    """Train one or several Specs, and check what models keep of clients that left such trainings.

    Arguments as for `simulate`.

    Raises:
        UsageError: a Spec without an unlearning protocol.
    """
    plan = Plan(_several(specs, data))
    if any(spec.unlearning is None for spec in plan.specs):
        raise UsageError("unlearn: a Spec has no unlearning protocol; expected Spec(..., unlearning={...})")
    return UnlearningReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


def audit_mechanism(
    mechanism: Mechanism[T],
    inputs: tuple[T, T],
    *,
    eps: float | None = None,
    delta: float = 0.0,
    trials: int = FUNCTION_TRIALS,
    confidence: float = 0.95,
    estimator: str = "one-run",
    seed: int = 1,
) -> FunctionAuditReport:
    """Measure a lower bound on the epsilon of any function by trials, and check a claim.

    Args:
        mechanism: called as `mechanism(input, rng)` with a copy of an input and a `numpy.random.Generator` of
            its own for each trial; returns a number, an array of one shape, text or bytes.
        inputs: two neighbouring inputs.
        eps: what is claimed; None for no claim.
        delta: of the claim.
        trials: evaluated trials with each input; three quarters of that number come before them.
        confidence: of the lower bound.
        estimator: as option `--estimator` of `audit-function`.
        seed: of the generators.

    Raises:
        UsageError: an invalid value, or the function raises or returns something else.
    """
    given = {"eps": eps, "delta": delta, "trials": trials, "confidence": confidence}
    spec = FunctionAuditSpec.parse({**given, "estimator": estimator, "seed": seed}, "audit_mechanism")
    name = getattr(mechanism, "__name__", type(mechanism).__name__)
    return FunctionAuditReport.of(audit_function(mechanism, inputs, spec), name, spec)


def compare(
    grid: Mapping[str, object] | ComparisonGrid | None = None,
    *,
    out: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    jobs: int | None = None,
) -> CompareReport:
    """Run defenses over a grid, and report what each claims, leaks and costs.

    Args:
        grid: fields of `experiments.comparison.grid.ComparisonGrid`; the defaults are the command's.
        out: folder that stores every cell; without one nothing is stored.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.
        jobs: processes; None for one per core.

    Raises:
        UsageError: an invalid value.
    """
    asked = grid if isinstance(grid, ComparisonGrid) else ComparisonGrid.parse(dict(grid or {}), "compare")
    if out is not None:
        refuse_fleeting(asked.table(), NOT_SAVED)
    with comparison_folder(out, resume=resume, overwrite=overwrite) as folder:
        return CompareReport.of(folder, run_grid(asked, folder, Workers(jobs=jobs)))


def attack_trace(
    path: str | Path,
    methods: str | Sequence[str] | None = None,
    *,
    target: str | None = None,
    data: str | None = None,
    view: str | None = None,
    step: ClientStep | StepFunction | None = None,
    know: Mapping[str, object] | None = None,
) -> AttackReport:
    """Attack a recorded Run or trace that holds its truth, with one attack or several.

    Without `methods` these are the attacks of its Spec, or the strong ones that fit its messages. With the
    view `aggregate` the observer sees the sum of each round, with `client` the global models before and after
    it, and the lists of its clients. `step` is what the clients compute from a list and its clicks, if it is
    not PDGD: a client step such as `torch_step` makes, or a function `step(model, features, clicks)` as of
    `numpy_step`. `know` are facts over those of its header, e.g. `{"learning_rate": 0.1}`.

    Raises:
        UsageError: it holds no truth, its data set is missing, or a fact does not exist.
        TraceError: it is damaged, or was recorded on other data.
        PluginError: the step fails, or does not fit the trace.
    """
    chosen = (methods,) if isinstance(methods, str) else methods
    own = None if step is None else as_client_step(step)
    changes = {"methods": chosen, "view": view}
    recorded = TraceAttack.open(
        Path(path), target=target, data=data, changes=changes, know=know, client_step=own
    )
    return recorded_report(recorded)


def audit_trace(
    path: str | Path,
    *,
    eps: float | None = None,
    delta: float = 0.0,
    view: str | None = None,
    confidence: float = 0.95,
    estimator: str = "one-run",
    data: str | None = None,
    step: ClientStep | StepFunction | None = None,
    know: Mapping[str, object] | None = None,
) -> CoinAuditReport:
    """Measure a lower bound on epsilon from a recorded laboratory run whose clients tossed coins.

    Args:
        path: a trace or a Run whose truth holds canaries and coins.
        eps: what is claimed; None for the fact `eps_claimed`, if the header has it.
        delta: of the claim.
        view: `individual` or `aggregate`; by default messages, or sums where messages are masked.
        confidence: of the lower bound.
        estimator: `one-run` or `clopper-pearson`.
        data: path of the data set, if features are not embedded.
        step: what the clients compute, if it is not PDGD; as for `attack_trace`.
        know: facts over those of the header.

    Raises:
        UsageError: no coins, facts that replays need are missing, or a bad value.
        PluginError: the step fails, or does not fit the trace.
        TraceError: it is damaged.
    """
    given = {"claim": eps, "delta": delta, "confidence": confidence, "estimator": estimator}
    views = {} if view is None else {"views": (view,)}
    protocol = validated(AuditSpec, {**given, **views}, "audit_trace: ")
    own = None if step is None else as_client_step(step)
    recorded = TraceAttack.open(Path(path), data=data, know=know, client_step=own)
    return CoinAuditReport.of(recorded, protocol)


def lint(
    subject: Spec | Sequence[Spec] | str | Path | Mapping[str, object], *, data: Collection | None = None
) -> SystemLintReport:
    """Compare what systems declare about their privacy with what follows from it, without running them.

    Args:
        subject: one or several Specs; the path of a Spec, a plan, a described system, a Run or a trace; or
            the tables of a described system, see `foltr_audit.core.declared.system_file`.
        data: a collection to use instead of loading the Specs' own.

    Raises:
        UsageError: an unknown field, or a bad value.
        TraceError: a damaged trace or Run.
    """
    if isinstance(subject, Mapping):
        return SystemLintReport.of([subject_described(subject)])
    if isinstance(subject, str | Path):
        return SystemLintReport.of(subjects_at(Path(subject)))
    return SystemLintReport.of(subjects_of(_several(subject, data), collection=data))


def _several(specs: Spec | Sequence[Spec], data: Collection | None) -> tuple[Spec, ...]:
    """The Specs; with `data` given, their data tables describe it."""
    several = (specs,) if isinstance(specs, Spec) else tuple(specs)
    if not several:
        raise UsageError("no Spec to run; expected at least one")
    if data is None:
        return several
    source = {
        "source": data.source,
        "fold": data.fold,
        "normalise": data.normalised,
        "dtype": str(data.train.features.dtype),
        "intents": data.intents_from,
    }
    return tuple(
        spec.model_copy(update={"data": DataSpec.model_validate({**source, "balance": spec.data.balance})})
        for spec in several
    )


def _run(
    plan: Plan, data: Collection | None, out: Path | None, *, resume: bool, overwrite: bool
) -> list[RunResult]:
    output = None if out is None else RunOutput(Path(out), resume=resume, overwrite=overwrite)
    return run_plan(plan, output, Runner(data=data))
