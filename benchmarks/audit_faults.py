"""What audits say of mechanisms that are broken on purpose: `python -m benchmarks.audit_faults`.

Each built-in mechanism declares what it always does, and does less. All options of the audit have their
defaults, but for those given here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.faults import CLICK_FAULTS, NOISE_FAULTS, broken
from benchmarks.tables import print_lines
from foltr_audit.auditing.audit import Audit
from foltr_audit.core.results import AuditRecord
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.runner import Runner
from foltr_audit.experiments.stages import first_model, train
from foltr_audit.simulation.setup import Setup

_GRID = "sigma=12,step=0.0009765625,delta=0.00001,sensitivity=3"
_EPS = "eps=1,delta=0.00001,sensitivity=3"
CHAINS: dict[str, tuple[str, ...]] = {
    "laplace": ("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3"),
    "gamma-laplace": ("clip:norm=1.5,ord=1", "gamma-laplace:eps=1.2,sensitivity=3"),
    "gaussian": ("clip:norm=1.5", f"gaussian:{_EPS}"),
    "gaussian-shares": ("clip:norm=1.5", f"gaussian-shares:{_EPS}"),
    "skellam": ("clip:norm=1.5", f"skellam:{_GRID}"),
    "skellam, secure sums": ("clip:norm=1.5", f"skellam:{_GRID}", "secure-aggregation"),
    "discrete-gaussian": ("clip:norm=1.5", f"discrete-gaussian:{_GRID}"),
    "click-rr": ("click-rr:eps=0.5",),
}
"""A chain for each built-in mechanism."""


def findings(setup: Setup, models: Mapping[str, Sequence[NDArray[np.float64]]]) -> tuple[AuditRecord, ...]:
    protocol = setup.spec.audit
    if protocol is None:
        raise ValueError("a Spec without an audit")
    return tuple(Audit(setup, protocol).findings(models))


def rows(data: str, clients: int, trials: int) -> Iterator[str]:
    """The table in Markdown, mechanism by mechanism."""
    yield "| mechanism | fault | sees | proven | measured | verdict | found |"
    yield "|---|---|---|---:|---:|---|---|"
    study = Runner()
    for name, chain in CHAINS.items():
        setup = study.setup(
            Spec.parse(
                {
                    "data": {"source": data},
                    "population": {"clients": clients},
                    "defense": chain,
                    "audit": {"trials": trials, "views": ["individual", "aggregate"]},
                }
            )
        )
        models = {"first": [first_model(setup)], "trained": [train(setup).parameters]}
        faults = CLICK_FAULTS if name == "click-rr" else NOISE_FAULTS
        for fault in ("", *faults):
            for found in findings(broken(setup, fault) if fault else setup, models):
                yield _row(name, fault, found)


def _row(name: str, fault: str, found: AuditRecord) -> str:
    proven = f"{found.upper.epsilon:.2f}" if np.isfinite(found.upper.epsilon) else "none"
    sees = {"individual": "message", "aggregate": "sum"}[found.view]
    why = found.declared_why.partition(": ")[2]
    cells = (name, fault or "none", sees, proven, f"{found.lower.epsilon:.2f}", found.verdict, why)
    return f"| {' | '.join(cells)} |"


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:mq2007:200", help="Data set.")
    parser.add_argument("--clients", type=int, default=1000, help="Clients of a round.")
    parser.add_argument("--trials", type=int, default=10_000, help="Trials per hypothesis.")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="Write the table there, not to stdout.")
    options = parser.parse_args(given)
    print_lines(rows(options.data, options.clients, options.trials), options.markdown)


if __name__ == "__main__":
    main()
