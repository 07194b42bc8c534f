"""The shared options as one record, and the plan that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.cli.given import published_chain, read_text, refuse_alternatives
from foltr_audit.cli.options import Table
from foltr_audit.cli.protocol_options import AttackOptions, AuditOptions
from foltr_audit.cli.shared_options import LEARNER, SharedOptions
from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import whole_number

if TYPE_CHECKING:
    from foltr_audit.core.plugins import Learner
    from foltr_audit.experiments.plan import Plan
    from foltr_audit.experiments.runner import RunOutput

PROTOCOLS = ("attack", "audit")
"""What may follow training."""


@dataclass(frozen=True, kw_only=True)
class CommonOptions(SharedOptions):
    """The shared options of a command, and what they mean together."""

    def point(self) -> Table:
        """The Spec fields that the given options set, by dotted name, except those that make axes."""
        if self.no_trace and self.trace_every is not None:
            raise UsageError("--trace-every and --no-trace: give one or the other")
        found = super().point() | ({"trace.every": 0} if self.no_trace else {})
        return {name: value for name, value in found.items() if not name.startswith(LEARNER)}

    def learner_changes(self) -> dict[str, object]:
        """The parameters of the learner that the given options change."""
        found = super().point()
        changes = {name.removeprefix(LEARNER): found[name] for name in found if name.startswith(LEARNER)}
        if self.pdgd is not None:
            from foltr_audit.core.pdgd import pdgd_setting

            changes |= pdgd_setting(self.pdgd)._asdict()
        return changes

    def learner_axis(self, protocol: str | None) -> list[Table]:
        """One point for each --learner; with a protocol, plain fpdgd is the one that the protocol repeats."""
        from foltr_audit.core.spec.train import default_learner

        plain = default_learner(attacks=protocol is not None)
        return [
            {"train.learner": plain if text.strip() == "fpdgd" else text} for text in self.learner or ()
        ] or [{}]

    def defense_axis(self, table: Table) -> list[Table]:
        """One point for each chain: those of --defense, or the learner's published one for each --eps.

        Raises:
            UsageError: both options are given, --sensitivity is without --eps, or a value is out of range.
        """
        if self.eps and self.defense:
            raise UsageError("--eps and --defense: give one or the other; --eps means the published chain")
        if self.sensitivity is not None and not self.eps:
            raise UsageError("--sensitivity: only with --eps; a --defense states its own sensitivity")
        if self.defense:
            refuse_alternatives(self.defense)
            return [{"defense": [text]} for text in self.defense]
        if not self.eps:
            return [{}]
        learner = _learner_of(table)
        return [{"defense": published_chain(learner, eps, self.sensitivity)} for eps in self.eps]

    def repetition_axis(self, table: Table) -> list[Table]:
        """One point for each repetition, with its fold.

        Raises:
            UsageError: --runs is below 1, or --fold is not a fold of the data.
        """
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
        self,
        point: Table,
        *,
        protocol: str | None = None,
        same: bool = False,
        tables: Sequence[Table] | None = None,
    ) -> Plan:
        """The plan of all options.

        Args:
            point: the Spec fields that the command's own options set, by dotted name.
            protocol: the one of `PROTOCOLS` that follows training; None to train only.
            same: train under each attacked click model.
            tables: Spec tables to start from instead of those of --config.

        Raises:
            UsageError: a value is out of range, or options exclude each other.
        """
        from foltr_audit.experiments.plan import Plan, apply_changes, expand

        if tables is None:
            tables = [{}] if self.config is None else read_config(self.config)
        tables = [apply_changes(table, {**self.point(), **point}) for table in tables]
        # Learners come before defenses, since --eps means another chain for each learner; repetitions come
        # last, so that those of one system run one after the other.
        tables = expand(tables, self.learner_axis(protocol))
        for table in tables:
            for name in PROTOCOLS:
                if name == protocol:
                    table.setdefault(name, {})
                else:
                    table.pop(name, None)
            _change_learner(table, self.learner_changes())
        if same:
            tables = [cell for table in tables for cell in _trained_on_each(table)]
        tables = [apply_changes(table, chain) for table in tables for chain in self.defense_axis(table)]
        tables = [apply_changes(table, run) for table in tables for run in self.repetition_axis(table)]
        return Plan.of(tables, str(self.config or ""), FIELD_OPTIONS)

    def output(self) -> RunOutput | None:
        """The place of the results; None without --out.

        Raises:
            UsageError: --resume and --overwrite are both given, or one of them without --out.
        """
        if self.out is None:
            if self.resume or self.overwrite:
                raise UsageError(f"{'--resume' if self.resume else '--overwrite'}: only with --out")
            return None
        from foltr_audit.experiments.runner import RunOutput

        return RunOutput(self.out, resume=self.resume, overwrite=self.overwrite)


_LEARNER_OPTIONS = {**CommonOptions.flags(LEARNER), "pairs": "--pdgd", "normaliser": "--pdgd"}

FIELD_OPTIONS = {
    "population": "--cohort",
    "data.fold": "--fold",
    "train.learner": "--learner",
    "audit": "",
    **{
        name: flag
        for record in (CommonOptions, AttackOptions, AuditOptions)
        for name, flag in record.flags().items()
        if not name.startswith(LEARNER) and name != "train.click_model"  # commands name it differently
    },
}
"""The option that sets each field of the Spec, for messages."""


def folds_of(text: str | None, source: str | None) -> Sequence[int]:
    """The folds of --fold in some data; none if it is not given.

    Raises:
        UsageError: it is neither a number nor `all`, or the data have no folds.
    """
    if text is None:
        return ()
    if text != "all":
        fold = whole_number(text, 1, 999_999)
        if fold is None:
            raise UsageError(f"--fold: {text[:40]!r}; expected the number of a fold, or all")
        return (fold,)
    from foltr_audit.core.spec.data import DataSpec
    from foltr_audit.core.spec.experiment import Spec
    from foltr_audit.data.load import folds

    source = source or DataSpec().source
    found = folds(Spec.parse({"data": {"source": source}}, "", FIELD_OPTIONS).data)
    if not found:
        raise UsageError(f"--fold all: {source} has no FoldK folders")
    return found


def read_config(config: Path) -> list[Table]:
    """The Spec tables of a --config, before any option changes them.

    Raises:
        UsageError: it cannot be read, or does not contain a valid Spec.
    """
    from foltr_audit.experiments.plan import Plan, read_tables

    tables = read_tables(read_text(config, "--config"), str(config))
    Plan.of(tables, str(config), FIELD_OPTIONS)  # refuses errors in the file before options hide them
    return tables


def _trained_on_each(table: Table) -> list[Table]:
    from foltr_audit.core.spec.attack import AttackSpec
    from foltr_audit.experiments.plan import apply_changes

    models = table["attack"].get("click_models", AttackSpec().click_models)
    return [
        apply_changes(table, {"train.click_model": name, "attack.click_models": [name]}) for name in models
    ]


def _change_learner(table: Table, changes: dict[str, object]) -> None:
    if changes:
        table.setdefault("train", {})["learner"] = changed_learner(_learner_of(table).text, changes)


def changed_learner(text: str, changes: dict[str, object]) -> str:
    """The text of a learner with other parameters.

    Raises:
        UsageError: the learner has no such parameter, or refuses the value.
    """
    from foltr_audit.core.plugins import Learner
    from foltr_audit.core.plugins.registry import make, remade

    learner = make(Learner, text)
    for name in changes:
        if name not in type(learner).model_fields:
            raise UsageError(f"{_LEARNER_OPTIONS[name]}: learner {learner.name} has no such setting")
    return remade(learner, changes).text


def _learner_of(table: Table) -> Learner:
    """The learner of a Spec's table, or the default one."""
    from foltr_audit.core.plugins import Learner
    from foltr_audit.core.plugins.registry import make
    from foltr_audit.core.spec.train import default_learner

    default = default_learner(attacks=any(name in table for name in PROTOCOLS))
    return make(Learner, table.get("train", {}).get("learner", default))


def use_threads(threads: int | None) -> None:
    """Set the number of threads of the kernels.

    Raises:
        UsageError: fewer than 1.
    """
    if threads is None:
        return
    if threads < 1:
        raise UsageError(f"--threads: {threads}; expected at least 1")
    import numba

    most = int(vars(numba.config)["NUMBA_NUM_THREADS"])  # numba refuses more than it started with
    numba.set_num_threads(min(threads, most))
