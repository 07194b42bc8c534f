"""The Python API, with the same names as the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from foltr_audit.auditing.function_audit import audit_function
from foltr_audit.auditing.function_outputs import Mechanism, T
from foltr_audit.core.client_steps import StepFunction, as_client_step
from foltr_audit.core.plugins import Attack, ClientStep
from foltr_audit.core.plugins.registry import NOT_SAVED, Attacks, Chain, Clicks, refuse_fleeting, texts_of
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.audit import FUNCTION_TRIALS, FunctionAuditSpec
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.defaults import DELTA, PROTOCOLS, TRIALS, VIEW
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.fields import GridFields
from foltr_audit.data.load import load_collection
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.fresh_runs import CheckRunRequest, check_fresh
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.recorded_runs import check_trace
from foltr_audit.evidence.check.subjects import check_comparison, click_attacks
from foltr_audit.experiments.comparison.folder import INDEX, ComparisonFolder, comparison_folder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.runner import compare as run_grid
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.lint_subjects import subjects_at, subjects_of
from foltr_audit.experiments.plan import Plan, trained_on_each
from foltr_audit.experiments.recommend.recommend import SearchBudget, attacked_as_trained
from foltr_audit.experiments.recommend.recommend import recommend as search
from foltr_audit.experiments.recommend.space import PrivacyLimits
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runner import Runner, RunOutput, run_plan
from foltr_audit.report.attack import AttackReport, recorded_report
from foltr_audit.report.audit import AuditReport, FunctionAuditReport, SystemLintReport
from foltr_audit.report.check import CheckReport
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.membership import MembershipReport, UnlearningReport
from foltr_audit.report.recommend import RecommendReport
from foltr_audit.report.train import TrainReport
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.optional_dependencies import require
from foltr_audit.utils.reading import file_text

Specs = Spec | Mapping[str, object] | Sequence[Spec]


@names_arguments
def load_data(
    source: str | Path,
    *,
    fold: int = 0,
    normalise: str = "zscore",
    missing: float | str | None = None,
    dtype: str = "float32",
    document_order: str = "content",
    seed: int = 1,
    intents: str | None = None,
) -> Collection:
    """Ranking data from files, normalised; `make_data` takes arrays.

    Args:
        source: a folder or file with LETOR data or a search log, or `synthetic:NAME[:QUERIES]`.
        fold: number of the fold; 0 for data without folds.
        normalise: zscore, zscore-parts, query-minmax or none, as `--normalise`.
        missing: what missing features become: a number, `min` or `mean`, as `--missing`; None for 0, and NaN
            is refused.
        dtype: of the features, float32 or float64.
        document_order: content, so that the order of rows changes no result, or file.
        seed: splits data that come in one part.
        intents: a folder of qrels for each intent, a file of TREC's diversity qrels, `FILE[:I]` for its first
            I subtopics (4), or `synthetic[:I]`; None for one intent.

    Returns:
        The parts for training, validation and test.

    Raises:
        DataError: the files cannot be read as ranking data.
        UsageError: a source, fold or normalization that does not exist.

    Example:
        >>> import foltr_audit as fa
        >>> fa.load_data("synthetic:mq2007:30")
        <Collection: synthetic synthetic:mq2007:30, 18 / 6 / 6 queries, 46 features>
    """
    how: dict[str, object] = {"fold": fold, "normalise": normalise, "missing": missing, "dtype": dtype}
    how |= {"source": str(source), "document_order": document_order, "intents": intents}
    spec = Spec.parse({"data": how}, "load_data")
    return load_collection(spec.data, seed)


@names_arguments
def simulate(
    specs: Specs,
    *,
    defense: Chain | None = None,
    data: Collection | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    twins: bool = False,
) -> TrainReport:
    """Train the rankers of one or several Specs; protocols in them are ignored.

    Args:
        specs: what to train: a Spec or its table; several are compared in one report.
        defense: a chain in place of that of the Specs: texts, or objects such as `Clip(norm=1.5)`.
        data: a collection to use instead of loading the Specs' own.
        out: folder for traces and models.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.
        twins: also train the twins of each scenario, and compare.

    Returns:
        A report with one row per run and round.

    Raises:
        UsageError: a value that cannot be run, or a folder that holds something else.
        DataError: the data cannot be read.

    Example:
        >>> import foltr_audit as fa
        >>> small = {"data": {"source": "synthetic:mq2007:30"}, "population": {"clients": 10}}
        >>> len(fa.simulate({**small, "train": {"rounds": 2}}).rounds)
        2
    """
    several = _several(specs, data, None, {"defense": defense})
    plan = Plan(tuple(spec.only_trained for spec in several))
    plan = Runner(data=data).with_twins(plan) if twins else plan
    return TrainReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


@names_arguments
def attack(
    specs: Specs,
    *,
    methods: Attacks | None = None,
    defense: Chain | None = None,
    click_models: Clicks | None = None,
    data: Collection | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> AttackReport:
    """Train and attack one or several Specs; those that differ only in repetition and fold are pooled.

    Args:
        specs: what to attack: a Spec with an attack protocol, its table, or several Specs.
        methods: attacks in place of those of the Specs: texts, objects or classes, your own too.
        defense: a chain in place of that of the Specs: texts, or objects such as `Clip(norm=1.5)`.
        click_models: how the attacked users click, in place of what the Specs say.
        data: a collection to use instead of loading the Specs' own.
        out: folder for traces and models.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.

    Returns:
        A report with one row per attack, click model, claimed epsilon and view.

    Raises:
        UsageError: a Spec without an attack protocol where no `methods` or `click_models` are given, or a
            value that cannot be run.
        DataError: the data cannot be read.

    Example:
        >>> import foltr_audit as fa
        >>> small = {"data": {"source": "synthetic:mq2007:30"}, "population": {"clients": 10}}
        >>> report = fa.attack({**small, "train": {"rounds": 1}}, methods="map", click_models="perfect")
        >>> [row.number("auc") for row in report.results if row["method"] == "map"]
        [1.0]
    """
    changes = {"attack.methods": methods, "attack.click_models": click_models, "defense": defense}
    plan = _plan("attack", "attack", specs, data, changes)
    return AttackReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


@names_arguments
def attack_trace(
    path: str | Path,
    methods: Attacks | None = None,
    *,
    target: str | None = None,
    data: str | None = None,
    view: str | None = None,
    step: ClientStep | StepFunction | None = None,
    know: Mapping[str, object] | None = None,
) -> AttackReport:
    """Attack a recorded Run or trace that holds its truth, with one attack or several.

    Args:
        path: the folder of a Run or a trace.
        methods: attacks: texts, objects or classes; None for those of its Spec, or the strong ones that fit
            its messages.
        target: of a Run: `fresh` clients or `training` rounds.
        data: path of the data set, if features are not embedded and it has moved.
        view: what the observer sees: `individual` messages; `aggregate`, the sum of each round; `client`, the
            global models before and after it, and the lists of its clients.
        step: what the clients compute from a list and its clicks, if it is not PDGD: a client step such as
            `torch_step` makes, or a function `step(model, features, clicks)` as of `numpy_step`.
        know: facts over those of its header, e.g. `{"learning_rate": 0.1}`.

    Returns:
        A report with one row per attack.

    Raises:
        UsageError: it holds no truth, its data set is missing, or a fact does not exist.
        TraceError: it is damaged, or was recorded on other data.
        PluginError: the step fails, or does not fit the trace.

    Example:
        >>> import foltr_audit as fa
        >>> fa.attack_trace("run", "lad").summary()  # doctest: +SKIP
    """
    recorded = TraceAttack.open(
        Path(path),
        target=target,
        data=data,
        changes={"methods": None if methods is None else texts_of(Attack, methods), "view": view},
        know=know,
        client_step=None if step is None else as_client_step(step),
    )
    return recorded_report(recorded)


@names_arguments
def audit(
    specs: Specs,
    *,
    defense: Chain | None = None,
    data: Collection | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> AuditReport:
    """Train one or several Specs, and check the claims of their chains with upper and lower bounds.

    Args:
        specs: what to run: a Spec with an audit protocol, its table, or several Specs.
        defense: a chain in place of that of the Specs.
        data: a collection to use instead of loading the Specs' own.
        out: folder for traces and models.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.

    Returns:
        A report with one row per run, view, unit and canary.

    Raises:
        UsageError: a Spec without an audit protocol, or a value that cannot be run.
        DataError: the data cannot be read.
    """
    plan = _plan("audit", "audit", specs, data, {"defense": defense})
    return AuditReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


@names_arguments
def membership(
    specs: Specs,
    *,
    defense: Chain | None = None,
    data: Collection | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> MembershipReport:
    """Train one or several Specs, and tell from global models who took part in such trainings.

    Args:
        specs: what to run: a Spec with a membership protocol, its table, or several Specs.
        defense: a chain in place of that of the Specs.
        data: a collection to use instead of loading the Specs' own.
        out: folder for traces and models.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.

    Returns:
        A report with one row per attack, view and released model.

    Raises:
        UsageError: a Spec without a membership protocol, or a value that cannot be run.
        DataError: the data cannot be read.
    """
    plan = _plan("membership", "membership", specs, data, {"defense": defense})
    return MembershipReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


@names_arguments
def unlearn(
    specs: Specs,
    *,
    defense: Chain | None = None,
    data: Collection | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> UnlearningReport:
    """Train one or several Specs, and check what models keep of clients that left such trainings.

    Args:
        specs: what to run: a Spec with an unlearning protocol, its table, or several Specs.
        defense: a chain in place of that of the Specs.
        data: a collection to use instead of loading the Specs' own.
        out: folder for traces and models.
        resume: continue with the content of the folder.
        overwrite: replace the content of the folder.

    Returns:
        A report with one row per method.

    Raises:
        UsageError: a Spec without an unlearning protocol, or a value that cannot be run.
        DataError: the data cannot be read.
    """
    plan = _plan("unlearn", "unlearning", specs, data, {"defense": defense})
    return UnlearningReport.of(plan, _run(plan, data, out, resume=resume, overwrite=overwrite))


@names_arguments
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
        estimator: as option `--estimator` of `foltr-audit audit`.
        seed: of the generators.

    Returns:
        A report with the lower bound and the verdict on the claim.

    Raises:
        UsageError: an invalid value, or the function raises or returns something else.

    Example:
        >>> import foltr_audit as fa
        >>> laplace = lambda value, rng: value + rng.laplace()
        >>> fa.audit_mechanism(laplace, (0.0, 1.0), eps=1.0, trials=400).results[0]["verdict"]
        'not refuted'
    """
    given = {"eps": eps, "delta": delta, "trials": trials, "confidence": confidence}
    spec = FunctionAuditSpec.parse({**given, "estimator": estimator, "seed": seed}, "audit_mechanism")
    return FunctionAuditReport.of(audit_function(mechanism, inputs, spec), spec)


@names_arguments
def compare(
    grid: GridFields | ComparisonGrid | None = None,
    *,
    out: str | Path | None = None,
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

    Returns:
        A report with one row per defense and world, and the decision in its summary.

    Raises:
        UsageError: an invalid value.
        PluginError: a class of this process alone, with `out` or several processes.

    Example:
        >>> import foltr_audit as fa
        >>> print(fa.compare({"eps": [1.2]}).summary())  # doctest: +SKIP
    """
    asked = grid if isinstance(grid, ComparisonGrid) else ComparisonGrid.parse(dict(grid or {}), "compare")
    if out is not None:
        refuse_fleeting(asked.table(), NOT_SAVED)
    with comparison_folder(None if out is None else Path(out), resume=resume, overwrite=overwrite) as folder:
        return CompareReport.of(folder, run_grid(asked, folder, Workers(jobs=jobs)))


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

    One of the limits is fixed: nDCG@10 has to be shown to fall by at most .05, see `compare`.

    Args:
        spec: the experiment; its own defense does not matter. None for the default one.
        max_eps: limit of the epsilon that is proven for one interaction in a message; inf for no limit.
        max_attack_auc: limit of the one-sided 95 % upper bound of the AUC of every attack.
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
        max_eps=max_eps, max_attack_auc=max_attack_auc, max_proven_auc=max_proven_auc, view=view, delta=delta
    )
    effort = SearchBudget(candidates=candidates, search_runs=search_runs, runs=runs, trials=trials)
    require("recommend")
    asked = spec if isinstance(spec, Spec) else Spec.parse({"attack": {}, **(spec or {})}, "")
    base = attacked_as_trained(asked if methods is None else asked.having({"attack.methods": methods}))
    if out is not None:
        refuse_fleeting(base.table(), NOT_SAVED)
    base = base.with_strong_attacks() if methods is None else base
    with comparison_folder(None if out is None else Path(out), resume=resume, overwrite=overwrite) as folder:
        report = RecommendReport.of(search(base, limits, effort, folder, Workers(jobs=jobs)), folder)
        if out is not None:
            folder.save_results(report.json())
    return report


@names_arguments
def lint(subject: Specs | str | Path, *, data: Collection | None = None) -> SystemLintReport:
    """Compare what systems declare about their privacy with what follows from it, without running them.

    Args:
        subject: a Spec, its table, or several Specs; or the path of a Spec, a plan, a Run or a trace.
        data: a collection to use instead of loading the Specs' own.

    Returns:
        A report with one row per system, and what does not fit together in it.

    Raises:
        UsageError: an unknown field, or a bad value.
        TraceError: a damaged trace or Run.

    Example:
        >>> import foltr_audit as fa
        >>> fa.lint(fa.Spec(data={"source": "synthetic:mq2007:30"})).errors
        0
    """
    if isinstance(subject, str | Path):
        return SystemLintReport.of(subjects_at(Path(subject)))
    return SystemLintReport.of(subjects_of(_several(subject, data, None, {}), collection=data))


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
        A report whose `holds` says whether every limit holds, with one row for each limit; `passes` also
        allows what cannot be judged, if the limits say `allow_not_judged`.

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
    if isinstance(limits, Mapping):
        given = SystemLimits.parse(limits, "limits")
    else:
        given = SystemLimits.from_toml(file_text(Path(limits), UsageError), str(limits))
    chosen = () if methods is None else click_attacks(texts_of(Attack, methods), every=False)
    if isinstance(subject, str | Path):
        path = Path(subject)
        if (path / INDEX).is_file():
            if chosen:
                raise UsageError("--method: a comparison was run already; expected none")
            return CheckReport.of(check_comparison(given, ComparisonFolder.open(path)))
        return CheckReport.of(check_trace(given, path, chosen))
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
    with comparison_folder(None) as folder:
        return CheckReport.of(check_fresh(given, request, folder, named=bool(chosen), every=False))


def _plan(
    call: str, protocol: str, specs: Specs, data: Collection | None, changes: Mapping[str, object]
) -> Plan:
    """The plan of a call whose Specs all need a protocol, without the other protocols."""
    several = _several(specs, data, protocol, changes)
    if any(getattr(spec, protocol) is None for spec in several):
        raise UsageError(f"{call}: a Spec has no {protocol} protocol; expected Spec(..., {protocol}={{...}})")
    alone = {name: None for name in PROTOCOLS if name != protocol}
    return Plan(tuple(spec.model_copy(update=alone) for spec in several))


def _several(
    specs: Specs, data: Collection | None, protocol: str | None, changes: Mapping[str, object]
) -> tuple[Spec, ...]:
    """The Specs with what is given beside them; with `data` given, their data tables describe it.

    A table without the protocol gets its defaults.
    """
    if isinstance(specs, Mapping):
        asked = specs if protocol is None else {protocol: {}, **specs}
        several: tuple[Spec, ...] = (Spec.parse(asked, ""),)
    else:
        several = (specs,) if isinstance(specs, Spec) else tuple(specs)
    if not several:
        raise UsageError("no Spec to run; expected at least one")
    given = {name: value for name, value in changes.items() if value is not None}
    if given:
        several = tuple(spec.having(given) for spec in several)
    if data is None:
        return several
    return tuple(
        spec.model_copy(update={"data": DataSpec.of(data, balance=spec.data.balance)}) for spec in several
    )


def _run(
    plan: Plan, data: Collection | None, out: str | Path | None, *, resume: bool, overwrite: bool
) -> list[Run]:
    output = None if out is None else RunOutput(Path(out), resume=resume, overwrite=overwrite)
    return run_plan(plan, output, Runner(data=data))
