"""What `audit --no-trials` looks at: Specs, Runs and traces, each as a declared system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foltr_audit.core.declared.declared_system import DeclaredSystem
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.errors import UsageError
from foltr_audit.experiments.plan import Plan, read_tables
from foltr_audit.experiments.runs.folder import PLAN, SPEC, RunFolder, spec_around
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace
from foltr_audit.trace.declared_header import declared_by
from foltr_audit.utils.reading import file_text

SubjectKind = Literal["Spec", "trace"]


@dataclass(frozen=True, kw_only=True)
class LintSubject:
    """One system that is looked at, by where it is declared: a path or a Spec, with the chain of a Spec."""

    name: str
    kind: SubjectKind
    system: DeclaredSystem


def subjects_of(
    specs: Iterable[Spec], name: str = "Spec", collection: Collection | None = None
) -> Iterator[LintSubject]:
    """The systems of Specs; those that declare the same, such as repetitions, once.

    Without a collection their data are loaded, since the features decide how long a message is.
    """
    loaded: dict[str, Collection] = {}
    seen: list[DeclaredSystem] = []
    for spec in specs:
        key = f"{spec.data!r} {spec.seed}"
        if collection is None and key not in loaded:
            loaded = {key: load_collection(spec.data, spec.seed)}
        data = loaded[key] if collection is None else collection
        system = Setup(spec, data).privacy.declared()
        if system not in seen:
            seen.append(system)
            yield LintSubject(name=f"{name}: {'+'.join(spec.defense)}", kind="Spec", system=system)


def subjects_at(path: Path) -> Iterator[LintSubject]:
    """The systems that a path names: a file is a Spec or a plan, a folder a Run, several or a trace."""
    if not path.is_dir():
        text = file_text(path, UsageError)
        yield from subjects_of(Plan.of(read_tables(text, str(path)), str(path)).specs, str(path))
    elif (path / "trace.toml").exists():
        yield _of_trace(path)
    elif (path / PLAN).exists():
        runs = sorted(found.parent for found in path.glob(f"*/{SPEC}"))
        yield from subjects_of((RunFolder.open(run).spec for run in runs), str(path))
    else:
        yield from subjects_of((RunFolder.open(path).spec,), str(path))


def _of_trace(path: Path) -> LintSubject:
    """A trace by its header, and by the number of clients in a round."""
    trace = Trace.open(path)
    if trace.header.spec_hash:
        # Its rounds do not say: those of fresh clients hold the messages of many cohorts.
        spec = spec_around(path, trace.header.spec_hash)
        cohort = 0 if spec is None else spec.population.cohort_size
    else:  # each round of another system is a whole cohort
        cohort = trace.n_messages // trace.n_rounds if trace.n_rounds else 0
    return LintSubject(name=str(path), kind="trace", system=declared_by(trace.header, cohort or None))
