"""What is kept of one cell of a comparison: plain facts and arrays, enough for every table and picture.

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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.errors import TraceError, UsageError
from foltr_audit.evaluation import Evaluation
from foltr_audit.evidence import Evidence, Guessed
from foltr_audit.federation import Federation
from foltr_audit.message_size import bytes_per_client
from foltr_audit.run_folder import SPEC
from foltr_audit.setup import Setup
from foltr_audit.spec import Spec
from foltr_audit.study import Cell

FACTS, ARRAYS = "cell.json", "arrays.npz"
SCHEMA = "foltr-audit/cell/1"

LISTS = ("lists/", "guessed/")
"""How the names of arrays begin that have a row for every attacked list."""

Arrays = dict[str, NDArray[Any]]
Files = dict[str, bytes]
"""Contents by name; the last name is written last and says that a cell is finished."""

_GUESSED = tuple(each.name for each in fields(Guessed))
_LISTS = (
    *("query", "message", "shown", "clicks", "observed", "told", "rank", "unknowns", "surprisal", "group"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredCell:
    """One finished cell.

    Attributes:
        spec: its Spec.
        facts: `eps_claimed`, `learner`, `pdgd`, `data`, `warnings`, `population`, `ndcg@10` and its
            relatives, `bytes_per_client`, `groups` (names), and the `findings` of an audit.
        rounds: metrics of the training rounds by name, float64 (T,) each.
        query_ndcg: nDCG@10 of the trained model by evaluated query, float64 (Q,), NaN where it does not
            count.
        evidence: judged lists; None where nothing was attacked.
    """

    spec: Spec
    facts: dict[str, Any]
    rounds: dict[str, NDArray[np.float64]]
    query_ndcg: NDArray[np.float64]
    evidence: Evidence | None


def files_of(cell: Cell, setup: Setup) -> Files:
    """A cell that was run as files; the same bytes for the same Spec."""
    arrays, facts = _rounds(cell), _facts(cell)
    federation = Federation(setup)
    weights = federation.weights_after(cell.spec.train.rounds - 1)
    arrays["query_ndcg"] = federation.evaluation.by_query(cell.trained.parameters, weights)
    facts["ndcg@10_validation"] = _number(Evaluation(setup, "vali").ndcg(cell.trained.parameters, weights))
    facts["bytes_per_client"] = _number(bytes_per_client(setup, cell.trained.rounds))
    evidence = next(iter(cell.evidence.values()), None)
    if evidence is not None:
        facts["evidence"] = _described(evidence)
        arrays |= _arrays(evidence)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    packed = buffer.getvalue()
    facts["arrays_sha256"] = hashlib.sha256(packed).hexdigest()
    text = json.dumps(facts, indent=1, sort_keys=True) + "\n"
    return {SPEC: cell.spec.toml.encode(), ARRAYS: packed, FACTS: text.encode()}


def read_cell(folder: Path, spec: Spec) -> StoredCell:
    """The finished cell in a folder.

    Raises:
        TraceError: it is damaged, or of another Spec.
    """
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if facts["schema"] != SCHEMA:
            raise TraceError(f"{folder / FACTS}: schema {facts['schema']!r}; expected {SCHEMA!r}")
        if facts["spec_sha256"] != spec.hash:
            raise TraceError(f"{folder / FACTS}: made by another Spec than {spec.hash[:12]}")
        packed = (folder / ARRAYS).read_bytes()
        if hashlib.sha256(packed).hexdigest() != facts["arrays_sha256"]:
            raise TraceError(
                f"{folder / ARRAYS}: damaged: not the content that {FACTS} names; without {folder} "
                "compare --resume makes the cell anew"
            )
        with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        rounds = {name.removeprefix("rounds/"): arrays[name] for name in arrays if name.startswith("rounds/")}
        evidence = _evidence(facts["evidence"], arrays) if "evidence" in facts else None
        _check(facts)
        return StoredCell(
            spec=spec, facts=facts, rounds=rounds, query_ndcg=arrays["query_ndcg"], evidence=evidence
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
        why = f"{type(error).__name__}: {error}"
        raise TraceError(
            f"{folder}: damaged cell: {why}; without it compare --resume makes it anew"
        ) from error


_NUMBERS = (
    *("eps_claimed", "ndcg@10", "ndcg@10_validation", "ndcg@10_untrained", "ndcg@10_ceiling"),
    *("online_sum", "online_mean", "clipped", "too_short"),
)
_OTHERS = {"learner": str, "pdgd": str, "data": dict, "warnings": list, "groups": list, "findings": list}


def _check(facts: Mapping[str, Any]) -> None:
    """Refuse facts of which one is missing or of another kind.

    Raises:
        KeyError, TypeError, ValueError: one is.
    """
    for name in _NUMBERS:
        float(facts[name])
    for name, kind in _OTHERS.items():
        if not isinstance(facts[name], kind):
            raise TypeError(f"{name}: expected {kind.__name__}")
    if facts["bytes_per_client"] is not None:
        float(facts["bytes_per_client"])
    for name in ("fold", "fingerprint"):
        facts["data"][name]


def _facts(cell: Cell) -> dict[str, Any]:
    trained = cell.trained
    return {
        "schema": SCHEMA,
        "spec_sha256": cell.spec.hash,
        "eps_claimed": _number(cell.eps_claimed),
        "learner": cell.learner,
        "pdgd": cell.pdgd,
        "data": cell.data,
        "warnings": list(cell.warnings),
        "population": cell.described,
        "groups": list(cell.population.groups),
        "ndcg@10": _number(trained.ndcg),
        "ndcg@10_untrained": _number(trained.untrained),
        "ndcg@10_ceiling": _number(trained.ceiling),
        "online_sum": _number(trained.online_sum),
        "online_mean": _number(trained.online_mean),
        "clipped": _number(trained.clipped),
        "too_short": cell.too_short,
        "findings": [_plain(asdict(finding)) for finding in cell.findings],
    }


def _plain(value: Any) -> Any:
    """A value for JSON, infinities and NaN as texts that `float` reads."""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _number(value: float | None) -> float | str | None:
    if value is None or np.isfinite(value):
        return value
    return str(float(value))


def _rounds(cell: Cell) -> Arrays:
    rounds = cell.trained.rounds
    names = dict.fromkeys(name for row in rounds for name in row)
    return {
        f"rounds/{name}": np.array([row.get(name, np.nan) for row in rounds], dtype=np.float64)
        for name in names
    }


def _described(evidence: Evidence) -> dict[str, Any]:
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


def _arrays(evidence: Evidence) -> Arrays:
    found: Arrays = {f"lists/{name}": getattr(evidence, name) for name in _LISTS}
    for number, guessed in enumerate(evidence.guessed.values()):
        for name in _GUESSED:
            values = getattr(guessed, name)
            if values is not None:
                found[f"guessed/{number}/{name}"] = values
    return found


def _evidence(facts: Mapping[str, Any], arrays: Arrays) -> Evidence:
    guessed = {
        label: Guessed(**{name: arrays.get(f"guessed/{number}/{name}") for name in _GUESSED})  # type: ignore[arg-type]
        for number, label in enumerate(facts["guessed"])
    }
    return Evidence(
        **{name: arrays[f"lists/{name}"] for name in _LISTS},
        guessed=guessed,
        baselines=frozenset(facts["baselines"]),
        probabilities=frozenset(facts["probabilities"]),
        exact=frozenset(facts["exact"]),
        same_message=facts["same_message"],
        groups=tuple(facts["groups"]),
        refused=facts["refused"],
        steps=facts["steps"],
        clipped=facts["clipped"],
    )
