"""What is stored of one cell of a comparison: plain facts and arrays, enough for every table and picture.

```
spec.toml     the Spec, canonical
cell.json     facts, and the SHA-256 of the arrays
arrays.npz    metrics of the rounds, nDCG by query, judged lists
```
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import TraceError
from foltr_audit.experiments.comparison.cell_arrays import (
    ARRAYS,
    ROUNDS,
    Arrays,
    arrays_of,
    evidence_in,
    read_arrays,
    rounds_in,
)
from foltr_audit.experiments.comparison.facts import FACTS, SCHEMA, read_facts
from foltr_audit.experiments.runner import RunResult
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.simulation.communication_cost import bytes_per_client
from foltr_audit.simulation.evaluation import OfflineMetrics
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.reading import file_bytes
from foltr_audit.utils.reading.arrays import MOST_UNPACKED

Files = dict[str, bytes]
"""Contents by name; the last one is written last, so that a cell with that file is finished."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellRecord:
    """One finished cell.

    Attributes:
        spec: its Spec.
        facts: `eps_claimed`, `learner`, `pdgd`, `data`, `warnings`, `population`, `ndcg@10` and its
            relatives, `bytes_per_client`, `groups` (names), and the `findings` of an audit.
        rounds: metrics of the training rounds by name, float64 (T,) each.
        query_ndcg: nDCG@10 of the trained model by evaluated query, float64 (Q,), NaN where it does not
            count.
        evidence: judged lists; None without an attack.
    """

    spec: Spec
    facts: dict[str, Any]
    rounds: dict[str, Floats]
    query_ndcg: Floats
    evidence: ClickEvidence | None


def pack_cell(cell: RunResult, setup: Setup) -> Files:
    """The files of a cell that was run; the same bytes for the same Spec."""
    arrays, facts = _rounds(cell), _facts(cell)
    federation = Federation(setup)
    weights = federation.weights_after(cell.spec.train.rounds - 1)
    arrays["query_ndcg"] = federation.evaluation.by_query(cell.trained.parameters, weights)
    facts["ndcg@10_validation"] = OfflineMetrics(setup, "vali").ndcg(cell.trained.parameters, weights)
    facts["bytes_per_client"] = bytes_per_client(setup, cell.trained.rounds)
    evidence = next(iter(cell.attacks.evidence.values()), None)
    if evidence is not None:
        facts["evidence"] = _evidence_facts(evidence)
        arrays |= arrays_of(evidence)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    packed = buffer.getvalue()  # NumPy stores no time in the archive, so that equal arrays are equal bytes
    facts["arrays_sha256"] = hashlib.sha256(packed).hexdigest()
    # Sorted keys: the order in which facts are collected must not change the bytes.
    text = json.dumps(_plain(facts), indent=1, sort_keys=True) + "\n"
    # The facts last: a cell counts as finished once they are there, and files are written in this order.
    return {SPEC: cell.spec.toml.encode(), ARRAYS: packed, FACTS: text.encode()}


def read_cell(folder: Path, spec: Spec) -> CellRecord:
    """The finished cell in a folder.

    Raises:
        TraceError: it is damaged, or of another Spec.
    """
    facts, described = read_facts(folder, spec)
    packed = file_bytes(folder / ARRAYS, TraceError, MOST_UNPACKED)
    if hashlib.sha256(packed).hexdigest() != facts["arrays_sha256"]:
        raise TraceError(
            f"{folder / ARRAYS}: damaged: not the content that {FACTS} names; delete {folder}, "
            "then compare --resume runs the cell again"
        )
    arrays = read_arrays(packed, str(folder / ARRAYS))
    try:
        return CellRecord(
            spec=spec,
            facts=facts,
            rounds=rounds_in(arrays, spec.train.rounds),
            query_ndcg=arrays["query_ndcg"],
            evidence=None if described is None else evidence_in(arrays, described),
        )
    except (ValueError, KeyError) as error:
        raise TraceError(
            f"{folder}: damaged cell: {error}; delete it, then compare --resume runs it again"
        ) from error


def _facts(cell: RunResult) -> dict[str, Any]:
    trained = cell.trained
    return {
        "schema": SCHEMA,
        "spec_sha256": cell.spec.hash,
        "eps_claimed": cell.system.eps_claimed,
        "learner": cell.system.learner,
        "pdgd": cell.system.pdgd,
        "data": cell.data.plain(),
        "warnings": list(cell.system.warnings),
        "population": None if cell.world.described is None else cell.world.described.plain(),
        "groups": list(cell.world.population.groups),
        "ndcg@10": trained.ndcg,
        "ndcg@10_untrained": trained.untrained,
        "ndcg@10_ceiling": trained.ceiling,
        "online_sum": trained.online_sum,
        "online_mean": trained.online_mean,
        "clipped": trained.clipped,
        "too_short": cell.attacks.too_short,
        "findings": [asdict(finding) for finding in cell.findings],
    }


def _plain(value: Any) -> Any:
    """A value for JSON, infinities and NaN as texts that `float` reads (unlike those of `json_ready`)."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _rounds(cell: RunResult) -> Arrays:
    rounds = cell.trained.rounds
    names = dict.fromkeys(name for row in rounds for name in row)
    return {
        f"{ROUNDS}{name}": np.array([row.get(name, np.nan) for row in rounds], dtype=np.float64)
        for name in names
    }


def _evidence_facts(evidence: ClickEvidence) -> dict[str, Any]:
    return {
        "guessed": list(evidence.guessed),
        "surprised": [label for label, one in evidence.guessed.items() if one.surprisal is not None],
        "baselines": sorted(evidence.baselines),
        "probabilities": sorted(evidence.probabilities),
        "exact": sorted(evidence.exact),
        "same_message": evidence.same_message,
        "groups": list(evidence.groups),
        "refused": evidence.refused,
        "steps": evidence.steps,
        "clipped": evidence.clipped,
    }
