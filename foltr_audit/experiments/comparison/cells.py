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
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from foltr_audit.core.settings.experiment import Spec
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
from foltr_audit.experiments.comparison.facts import (
    FACTS,
    SCHEMA,
    AuditFacts,
    CellDataFacts,
    CellFacts,
    EvidenceFacts,
    read_facts,
)
from foltr_audit.experiments.comparison.proven_auc import attacked_auc, system_aucs
from foltr_audit.experiments.runner import RunResult
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.simulation.evaluation import OfflineMetrics
from foltr_audit.simulation.federation import Federation, bytes_per_client
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
        facts: what was run and what it found, but for arrays.
        rounds: metrics of the training rounds by name, float64 (T,) each.
        query_ndcg: nDCG@10 of the trained model by evaluated query, float64 (Q,), NaN where it does not
            count.
        validation_ndcg: the same on the validation split.
        evidence: judged lists; None without an attack, or where it had nothing to read.
    """

    spec: Spec
    facts: CellFacts
    rounds: dict[str, Floats]
    query_ndcg: Floats
    validation_ndcg: Floats
    evidence: ClickEvidence | None


def pack_cell(cell: RunResult, setup: Setup) -> Files:
    """The files of a cell that was run; the same bytes for the same Spec."""
    arrays = _rounds(cell)
    validation = OfflineMetrics(setup.collection, setup.ranker, setup.clients, setup.spec.train, part="vali")
    federation = Federation(setup)
    weights = federation.weights_after(cell.spec.train.rounds - 1)
    arrays["query_ndcg"] = federation.evaluation.by_query(cell.trained.parameters, weights)
    arrays["validation_ndcg"] = validation.by_query(cell.trained.parameters, weights)
    evidence = next(iter(cell.attacks.evidence.values()), None)
    if evidence is not None:
        arrays |= arrays_of(evidence)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    packed = buffer.getvalue()  # NumPy stores no time in the archive, so that equal arrays are equal bytes
    trained = cell.trained
    facts = CellFacts(
        schema_=SCHEMA,
        spec_sha256=cell.spec.hash,
        arrays_sha256=hashlib.sha256(packed).hexdigest(),
        eps_claimed=cell.system.eps_claimed,
        learner=cell.system.learner,
        pdgd=cell.system.pdgd,
        data=CellDataFacts.model_validate(cell.data.plain()),
        warnings=list(map(str, cell.system.warnings)),
        population=None if cell.world.described is None else cell.world.described.plain(),
        groups=list(cell.world.population.groups),
        ndcg=trained.ndcg,
        untrained=trained.untrained,
        ceiling=trained.ceiling,
        validation=validation.ndcg(trained.parameters, weights),
        online_sum=trained.online_sum,
        online_mean=trained.online_mean,
        clipped=trained.clipped,
        too_short=cell.attacks.too_short,
        bytes_per_client=bytes_per_client(
            setup.learner, setup.chain, setup.ranker.n_parameters, cell.spec.trace, trained.rounds
        ),
        findings=[AuditFacts.model_validate(asdict(finding)) for finding in cell.findings],
        proven_aucs=system_aucs(setup.privacy),
        attacked_auc=None if cell.spec.attack is None else attacked_auc(setup.privacy, cell.spec.attack),
        **({} if evidence is None else {"evidence": _evidence_facts(evidence)}),
        **({"unread": cell.attacks.unread} if cell.attacks.unread else {}),
    )
    # The facts last: a cell counts as finished once they are there, and files are written in this order.
    return {SPEC: cell.spec.toml.encode(), ARRAYS: packed, FACTS: facts.text().encode()}


def read_cell(folder: Path, spec: Spec) -> CellRecord:
    """The finished cell in a folder.

    Raises:
        TraceError: it is damaged, or of another Spec.
    """
    facts = read_facts(folder, spec)
    packed = file_bytes(folder / ARRAYS, TraceError, MOST_UNPACKED)
    if hashlib.sha256(packed).hexdigest() != facts.arrays_sha256:
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
            validation_ndcg=arrays["validation_ndcg"],
            evidence=None if facts.evidence is None else evidence_in(arrays, facts.evidence),
        )
    except (ValueError, KeyError) as error:
        raise TraceError(
            f"{folder}: damaged cell: {error}; delete it, then compare --resume runs it again"
        ) from error


def _rounds(cell: RunResult) -> Arrays:
    rounds = cell.trained.rounds
    names = dict.fromkeys(name for row in rounds for name in row)
    return {
        f"{ROUNDS}{name}": np.array([row.get(name, np.nan) for row in rounds], dtype=np.float64)
        for name in names
    }


def _evidence_facts(evidence: ClickEvidence) -> EvidenceFacts:
    return EvidenceFacts(
        guessed=list(evidence.guessed),
        surprised=[label for label, one in evidence.guessed.items() if one.surprisal is not None],
        baselines=sorted(evidence.baselines),
        probabilities=sorted(evidence.probabilities),
        exact=sorted(evidence.exact),
        same_message=evidence.same_message,
        groups=list(evidence.groups),
        refused=evidence.refused,
        steps=evidence.steps,
        clipped=evidence.clipped,
    )
