"""The shared options of commands, and the plan that they mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self, get_type_hints

from foltr_audit.cli.options import (
    DATA,
    DEFENSE,
    FEDERATION,
    OUTPUT,
    FieldOption,
    Table,
    flags,
    read_text,
    refuse_alternatives,
    shared,
    words,
)
from foltr_audit.cli.output import note, show, show_log, warn
from foltr_audit.cli.user_code import with_own_plugins
from foltr_audit.core.pdgd import pdgd_setting
from foltr_audit.core.settings.defaults import LEARNER, PROTOCOLS
from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import whole_number

if TYPE_CHECKING:
    from foltr_audit.core.plugins import Learner
    from foltr_audit.experiments.comparison.folder import ComparisonFolder
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.experiments.runner import RunOutput
    from foltr_audit.report.documents import Document

# Options that change a parameter of the learner of the same name.
OF_LEARNER = words("interactions learning_rate clip_without_pairs rank_with")
FRESH = words("attack.target attack.on attack.repeats attack.interactions")
CLAIM = ("audit.claim", "audit.delta", "audit.trials")
ATTACK = (
    *FRESH,
    *words(
        "attack.methods attack.click_models train.click_model attack.min_documents attack.lists attack.view "
        "attack.hide attack.queries attack.choices attack.colluders"
    ),
)
AUDIT = (
    *CLAIM,
    *words(
        "audit.views audit.units audit.canaries audit.models audit.confidence audit.stop_early "
        "audit.estimator audit.score audit.messages audit.drop_out audit.colluders audit.interactions "
        "audit.lists audit.on audit.min_documents"
    ),
)
MEMBERSHIP = words(
    "membership.methods membership.views membership.of membership.rounds_seen membership.shadows "
    "membership.references membership.others membership.gamma membership.offline_scale"
)
UNLEARNING = words(
    "unlearning.clients unlearning.methods unlearning.trials unlearning.delta unlearning.confidence "
    "unlearning.calibrate_every unlearning.calibration_interactions unlearning.fine_tune_rounds "
    "unlearning.ascent_rounds unlearning.ball"
)
SHARED = words(
    "eps sensitivity defense data.source fold data.normalise data.missing data.dtype data.document_order "
    "data.intents data.balance population.clients population.cohort population.separation "
    "population.cohorts population.scenario population.poisoning learner interactions train.rounds "
    "learning_rate pdgd clip_without_pairs rank_with train.ranker train.init train.server "
    "train.no_relevant train.no_relevant_online train.evaluate_every trace.message trace.dtype runs seed "
    "out resume overwrite trace.every no_trace trace.embed_features config save_config json verbose threads"
)
"""Names of the options of commands, in the order of their help: see `takes`."""
ANSWER = ("full", "quiet")


def shared_but(without: str) -> tuple[str, ...]:
    """`SHARED` without some options."""
    return tuple(name for name in SHARED if name not in words(without))


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options that several commands share; `fields` are those of a Spec, grid or study, by dotted name."""

    fields: Table = field(default_factory=dict)
    eps: list[float] | None = shared(
        "Claimed epsilon of the learner's published defense, inf for none: fpdgd clips at D/2 and adds Gamma "
        "shares of scale D/eps, foltr-es takes metric-rr. The claim need not hold. May be repeated: one run "
        "for each value.",
        DEFENSE,
        name=("--eps", "--published-eps"),
    )
    sensitivity: float | None = shared(
        "Sensitivity D of --eps. Default: as published, 3 below eps 4.5 and 5 from there.", DEFENSE
    )
    defense: list[str] | None = shared(
        "A chain of defenses joined by +, e.g. clip:norm=3+gaussian:sigma=2. May be repeated: one system "
        "for each chain.",
        DEFENSE,
    )
    fold: str | None = shared("Number K of a FoldK folder or of five pieces, or all.", DATA)
    learner: list[str] | None = shared(
        "fpdgd, foltr-es, pdgd, dbgd or coltr, with parameters as in pdgd:batch=100. May be repeated: "
        "one run for each learner. Default: fpdgd.",
        FEDERATION,
    )
    interactions: int | None = shared(
        "Number B of interactions of a client in a round. Default: 4.", FEDERATION
    )
    learning_rate: float | None = shared(
        "Step size. Default: that of the learner; 0.1 for fpdgd.", FEDERATION
    )
    pdgd: str | None = shared(
        "PDGD setting: oosterhuis-2018, pham-2022, or PAIRS/NORMALISER with all|last-click+1 and "
        "shown|candidates. Default: oosterhuis-2018 in train, else pham-2022.",
        FEDERATION,
    )
    clip_without_pairs: bool | None = shared(
        "Clip also after an interaction without pairs. Default: yes.", FEDERATION
    )
    rank_with: str | None = shared(
        "Model that ranks the lists of a round: local, the client's own, which learns from the clicks on "
        "earlier lists; or global. Default: local.",
        FEDERATION,
    )
    runs: int | None = shared(
        "Number of repetitions; run i uses fold i mod K. Default: 1, or K with --fold all.", OUTPUT
    )
    out: Path | None = shared("Folder for traces, the model and results.", OUTPUT, metavar="DIR")
    resume: bool = shared("Resume the Run in --out.", OUTPUT, name="--resume", default=False)
    overwrite: bool = shared("Replace the Run in --out.", OUTPUT, name="--overwrite", default=False)
    no_trace: bool = shared(
        "Record no messages of training rounds. --resume still works.",
        OUTPUT,
        name="--no-trace",
        default=False,
    )
    config: Path | None = shared("Start from a Spec or plan in TOML. Options override it.", OUTPUT)
    save_config: Path | None = shared("Write the Spec or plan to a file.", OUTPUT)
    json: bool = shared("Print one JSON object instead of tables.", OUTPUT, name="--json", default=False)
    full: bool = shared(
        "Print the whole report instead of a short answer.", OUTPUT, name="--full", default=False
    )
    quiet: bool = shared("Print only the conclusion.", OUTPUT, name=("--quiet", "-q"), default=False)
    verbose: bool = shared(
        "Say on stderr what is being done.", OUTPUT, name=("--verbose", "-v"), default=False
    )
    threads: int | None = shared("Number of threads. Results do not depend on it.", OUTPUT)

    def __post_init__(self) -> None:
        if self.full and self.quiet:
            raise UsageError("--full and --quiet: give one or the other")
        show_log(everything=self.verbose)

    def setting(self, **changes: Any) -> Self:
        """The same with other `fields`, whose dots are written as two underscores; None removes one."""
        named = {name.replace("__", "."): value for name, value in changes.items()}
        fields = {name: value for name, value in (self.fields | named).items() if value is not None}
        return replace(self, fields=fields)

    def of_table(self, table: str) -> Table:
        """The given fields of a table, by their names in it."""
        of_table = {name.partition(".")[::2]: value for name, value in self.fields.items()}
        return {name: value for (outer, name), value in of_table.items() if outer == table}

    def point(self) -> Table:
        """The Spec fields that the given options set, by dotted name, except those that make axes."""
        if self.no_trace and "trace.every" in self.fields:
            raise UsageError("--trace-every and --no-trace: give one or the other")
        return self.fields | ({"trace.every": 0} if self.no_trace else {})

    def learner_changes(self) -> dict[str, object]:
        """The parameters of the learner that the given options change."""
        given = {name: getattr(self, name) for name in OF_LEARNER}
        changes = {name: value for name, value in given.items() if value is not None}
        if self.pdgd is not None:
            changes |= pdgd_setting(self.pdgd)._asdict()
        return changes

    def learner_axis(self, protocol: str | None) -> list[Table]:
        """One point for each --learner; with a protocol, plain fpdgd is the one that the protocol repeats."""
        from foltr_audit.core.settings.train import default_learner

        plain = default_learner(attacks=protocol is not None)
        texts = [plain if text.strip() == LEARNER else text for text in self.learner or ()]
        return [{"train.learner": text} for text in texts] or [{}]

    def defense_axis(self, table: Table) -> list[Table]:
        """One point for each chain: those of --defense, or the learner's published one for each --eps."""
        if self.eps and self.defense:
            raise UsageError("--eps and --defense: give one or the other; --eps means the published chain")
        if self.sensitivity is not None and not self.eps:
            raise UsageError("--sensitivity: only with --eps; a --defense states its own sensitivity")
        if self.defense:
            refuse_alternatives(self.defense)
            return [{"defense": [text]} for text in self.defense]
        if not self.eps:
            return [{}]
        from foltr_audit.core.defense_chain import published_chain

        learner = _learner_of(table)
        try:
            return [{"defense": published_chain(eps, self.sensitivity, learner)} for eps in self.eps]
        except UsageError as error:
            named = str(error).startswith(("eps:", "sensitivity:"))
            raise UsageError(f"--{error}" if named else str(error)) from error

    def repetition_axis(self, table: Table) -> list[Table]:
        """One point for each repetition, with its fold."""
        if self.runs is not None and self.runs < 1:
            raise UsageError(f"--runs: {self.runs}; expected at least 1")
        folds = folds_of(self.fold, table.get("data", {}).get("source"))
        if self.runs is None and not folds:
            return [{}]
        return [
            {"repetition": run, **({"data.fold": folds[run % len(folds)]} if folds else {})}
            for run in range(self.runs or len(folds))
        ]

    def plan(
        self, *, protocol: str | None = None, same: bool = False, tables: Sequence[Table] | None = None
    ) -> Plan:
        """The plan of all options, or of `tables` instead of --config.

        A protocol, one of `PROTOCOLS`, follows training; `same` trains under each attacked click model.
        """
        from foltr_audit.experiments.plan import Plan, apply_changes, expand, trained_on_each, with_users

        if tables is None:
            tables = [{}] if self.config is None else read_config(self.config)
        tables = [apply_changes(table, self.point()) for table in tables]
        # Learners come before defenses, since --eps means another chain for each learner; repetitions come
        # last, so that those of one system run one after the other.
        tables = expand(tables, self.learner_axis(protocol))
        for table in tables:
            for name in PROTOCOLS:
                if name == protocol:
                    table.setdefault(name, {})
                else:
                    table.pop(name, None)
            if changes := self.learner_changes():
                learner = changed_learner(_learner_of(table).text, changes)
                table.update(apply_changes(table, {"train.learner": learner}))
        if same:
            tables = [cell for table in tables for cell in trained_on_each(table)]
        tables = [apply_changes(table, chain) for table in tables for chain in self.defense_axis(table)]
        tables = [apply_changes(table, run) for table in tables for run in self.repetition_axis(table)]
        return Plan.of([with_users(table) for table in tables], str(self.config or ""), field_flags())

    def show(self, report: Document, pictures: Sequence[Path] = ()) -> None:
        """Show a report, short without --full, with its warnings, and draw its pictures."""
        short = partial(report.show_short, quiet=self.quiet)
        show(report.json, report.show if self.full else short, json=self.json)
        warn(report.coded_warnings, full=self.full, quiet=self.quiet)
        for picture in pictures:
            report.save(picture)

    def output(self) -> RunOutput | None:
        """The place of the results; None without --out."""
        if self.out is None:
            if self.resume or self.overwrite:
                raise UsageError(f"{'--resume' if self.resume else '--overwrite'}: only with --out")
            return None
        from foltr_audit.experiments.runner import RunOutput

        return RunOutput(self.out, resume=self.resume, overwrite=self.overwrite)


class OtherHelp(NamedTuple):
    """A shared option with another help than in other commands."""

    name: str
    text: str | None = None
    panel: str | None = None


IN_CELLS = (
    OtherHelp("out", "Folder for the cells and results."),
    OtherHelp("resume", "Go on with the cells in --out."),
)


def takes(*names: str | OtherHelp) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take options that several commands share: they arrive as its parameter `common`.

    They are fields of `CommonOptions`, or have the dotted name of a field of a Spec, see `FieldOption`. Typer
    reads options from a signature and knows no records of them, so each is added to the signature.
    """
    taken = [OtherHelp(name) if isinstance(name, str) else name for name in names]
    shared_fields = {field.name: field for field in fields(CommonOptions)}
    hints = get_type_hints(CommonOptions)

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["common"]
        parameters = []
        settings: dict[str, FieldOption] = {}
        for name, text, panel in taken:
            if name in shared_fields:
                field = shared_fields[name]
                info = copy(field.metadata["option"])
                info.help = text or info.help
                parameters.append(_parameter(name, hints[name], info, field.default))
            else:
                setting = FieldOption.of(name)
                settings[setting.parameter] = setting
                info = setting.option(text, panel)
                parameters.append(_parameter(setting.parameter, setting.annotation, info, None))

        parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.values()]

        @wraps(command)
        def with_options(**given: Any) -> None:
            given = with_own_plugins(given)
            options = {name: given.pop(name) for name, _, _ in taken if name in shared_fields}
            values = {setting.name: setting.read(given.pop(name)) for name, setting in settings.items()}
            point = {name: value for name, value in values.items() if value is not None}
            command(**given, common=CommonOptions(**options, fields=point))

        vars(with_options)["__signature__"] = inspect.Signature(parameters)
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_options

    return add


def _parameter(name: str, kind: Any, info: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default
    )


def field_flags() -> dict[str, str]:
    """The option that sets each field of the Spec, for messages."""
    every = (*SHARED, *ATTACK, *AUDIT, *MEMBERSHIP, *UNLEARNING)
    # Commands name the click model of the training differently.
    names = (name for name in every if name == "seed" or ("." in name and name != "train.click_model"))
    own = {"population": "", "data.fold": "--fold", "train.learner": "--learner", "audit": ""}
    return own | flags(tuple(names))


def folds_of(text: str | None, source: str | None) -> Sequence[int]:
    """The folds of --fold in some data; none if it is not given."""
    if text is None:
        return ()
    if text != "all":
        fold = whole_number(text, 1, 999_999)
        if fold is None:
            raise UsageError(f"--fold: {text[:40]!r}; expected the number of a fold, or all")
        return (fold,)
    from foltr_audit.core.settings.data import DataSpec
    from foltr_audit.core.settings.experiment import Spec
    from foltr_audit.data.load import folds

    source = source or DataSpec().source
    numbers = folds(Spec.parse({"data": {"source": source}}, "", field_flags()).data)
    if not numbers:
        raise UsageError(f"--fold all: {source} has no FoldK folders and no five pieces")
    return numbers


def read_config(config: Path) -> list[Table]:
    """The Spec tables of a --config, before any option changes them."""
    from foltr_audit.experiments.plan import Plan, read_tables

    tables = read_tables(read_text(config, "--config"), str(config))
    Plan.of(tables, str(config), field_flags())  # refuses errors in the file before options hide them
    return tables


def changed_learner(text: str, changes: dict[str, object]) -> str:
    """The text of a learner with other parameters."""
    from foltr_audit.core.plugins import Learner
    from foltr_audit.core.plugins.registry import make, remade

    learner = make(Learner, text)
    for name in changes:
        if name not in type(learner).model_fields:
            option = f"--{name.replace('_', '-')}" if name in OF_LEARNER else "--pdgd"
            raise UsageError(f"{option}: learner {learner.name} has no such setting")
    return remade(learner, changes).text


def _learner_of(table: Table) -> Learner:
    """The learner of a Spec's table, or the default one."""
    from foltr_audit.core.plugins import Learner
    from foltr_audit.core.plugins.registry import make
    from foltr_audit.core.settings.train import default_learner

    default = default_learner(attacks=any(name in table for name in PROTOCOLS))
    return make(Learner, table.get("train", {}).get("learner", default))


def check_pictures(pictures: Sequence[Path], out: Path | None) -> None:
    """Refuse pictures that could not be written, before anything is computed."""
    from foltr_audit.report.picture_style import check_picture

    for picture in pictures:
        check_picture(picture, out)


@contextmanager
def open_comparison(common: CommonOptions) -> Iterator[ComparisonFolder]:
    """Open the comparison folder of --out; without --out a temporary one, and stderr says so."""
    from foltr_audit.experiments.comparison.folder import comparison_folder

    if common.out is None and not (common.resume or common.overwrite):  # these are refused below
        note("nothing is stored: with --out DIR every cell is, and --resume can resume")
    with comparison_folder(common.out, resume=common.resume, overwrite=common.overwrite) as folder:
        yield folder


def use_threads(threads: int | None) -> None:
    """Set the number of threads of the kernels."""
    if threads is None:
        return
    if threads < 1:
        raise UsageError(f"--threads: {threads}; expected at least 1")
    import numba

    most = int(vars(numba.config)["NUMBA_NUM_THREADS"])  # numba refuses more than it started with
    numba.set_num_threads(min(threads, most))
