"""Small files of every kind, as the tool writes them, made without playing a round."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from foltr_audit.recorder.messages import NodeOutcome

from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.results import EvidenceRecord, Record, RunRecord, UtilityRecord
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.comparison.grid import CellPlan, ComparisonGrid, DefenseLabel
from foltr_audit.experiments.store import packed_files
from foltr_audit.report.compare import CompareReport
from foltr_audit.trace import Fact, TraceDataset, TraceHeader, TraceWriter
from tests.fixtures import comparisons
from tests.fixtures.rounds import round_of
from tests.fuzz.mutations import npy

Tree = dict[str, bytes]
"""The files of a folder by their relative path."""

LISTS, ROOM, ROUNDS = 6, 4, 2


def tree(folder: Path) -> Tree:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def lay(folder: Path, files: Tree) -> None:
    """Make a folder hold these files and no others."""
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


# --- a comparison ---------------------------------------------------------------------------------


def spec(defense: str, repetition: int, *, kind: str) -> Spec:
    table: dict[str, Any] = {
        "repetition": repetition,
        "defense": [defense],
        "data": {"source": "synthetic:mq2007:60"},
        "population": {"clients": 5},
        "train": {"rounds": ROUNDS},
        "trace": {"every": 0},
    }
    protocol = {"methods": ["olsr"], "click_models": ["perfect"]} if kind == "attack" else {"trials": 50}
    return Spec.parse({**table, kind: protocol})


def cell_arrays() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    shown = np.tile(np.arange(ROOM), (LISTS, 1))
    shown[-1, 2:] = -1
    clicks = (rng.random((LISTS, ROOM)) < 0.5) & (shown >= 0)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "rounds/round": np.arange(float(ROUNDS)),
        "rounds/online_ndcg@10": np.linspace(0.2, 0.4, ROUNDS),
        "rounds/offline_ndcg@10": np.linspace(0.3, 0.5, ROUNDS),
        "rounds/clipped": np.zeros(ROUNDS),
        "query_ndcg": np.array([0.1, np.nan, 0.7]),
        "validation_ndcg": np.array([0.3, np.nan]),
        "lists/query": np.array([f"q{i // 2}" for i in range(LISTS)]),
        "lists/message": np.arange(LISTS),
        "lists/shown": shown,
        "lists/clicks": clicks,
        **dict.fromkeys(("lists/observed", "lists/told"), shown >= 0),
        "lists/rank": np.full(LISTS, 3),
        "lists/unknowns": np.full(LISTS, 4),
        "lists/surprisal": np.full(LISTS, 2.5),
        "lists/group": np.arange(LISTS) % 2,
    }
    for number in range(2):
        arrays[f"guessed/{number}/scores"] = rng.normal(size=(LISTS, ROOM))
        arrays[f"guessed/{number}/guess"] = clicks.copy()
        arrays[f"guessed/{number}/any_click"] = rng.random(LISTS)
    arrays["guessed/0/surprisal"] = np.full(LISTS, 1.5)
    return arrays


def training_arrays() -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a cell that was not attacked."""
    return {name: values for name, values in cell_arrays().items() if not name.startswith(("lists", "guess"))}


def cell_records(of: Spec) -> list[Record]:
    """The records of a cell."""
    found: list[Record] = [
        RunRecord(
            run=of.hash,
            learner=of.train.learner,
            pdgd="pham-2022",
            trained_on="perfect",
            claim=1.2,
            per_round=20,
            groups=("a", "b"),
            population=None,
            warnings=(CodedWarning("FA102", "shares of noise"),),
        ),
        comparisons.DATA,
        UtilityRecord(ndcg=0.4, evaluated_on="the test split", online_sum=0.7, online_mean=0.3, clipped=0.5),
        *comparisons.proofs(0.8, runs=1)["proofs"],
    ]
    if of.audit is not None:
        found.append(comparisons.audit("refuted", exact=math.inf))
    if of.attack is not None:
        found.append(
            EvidenceRecord(
                click_model="perfect",
                view="individual",
                guessed=("position-prior", "olsr"),
                surprised=("position-prior",),
                baselines=("position-prior",),
                probabilities=("position-prior",),
                exact=(),
                same_message=True,
                groups=("a", "b"),
                refused={"lad": "no"},
                steps=10,
                clipped=3,
            )
        )
    return found


Lines = list[Any]
"""The lines of a file of records, the header first."""


def lines_of(content: bytes) -> Lines:
    return [json.loads(line) for line in content.splitlines()]


def line_of(lines: Lines, kind: str) -> Any:
    """The first record of a kind."""
    return next(line for line in lines if line.get("kind") == kind)


def sealed(lines: Lines, archive: bytes) -> bytes:
    """A file of records with the right hash of the arrays."""
    lines[0]["arrays"] = hashlib.sha256(archive).hexdigest()
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode("utf-8", "surrogatepass")


def packed(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, bytes]:
    """Arrays as the members of an archive."""
    return {f"{name}.npy": npy(values) for name, values in arrays.items()}


def write_comparison(path: Path) -> None:
    """A finished comparison of two defenses, two repetitions and one audit."""
    folder = ComparisonFolder.create(path, resume=False, overwrite=False)
    planned = [
        CellPlan(spec(defense, run, kind="attack"), "attack", DefenseLabel(defense))
        for defense in ("none", "clip:norm=1")
        for run in range(2)
    ]
    planned.append(CellPlan(spec("clip:norm=1", 0, kind="audit"), "audit", DefenseLabel("clip:norm=1")))
    grid = ComparisonGrid.parse({"runs": 2, "defenses": ["none", "clip:norm=1"], "click_models": ["perfect"]})
    folder.save_index(grid, planned, [])
    for cell in planned:
        arrays = cell_arrays() if cell.kind == "attack" else training_arrays()
        folder.write(cell.spec, packed_files(cell.spec, cell_records(cell.spec), arrays))
    folder.save_results(CompareReport.of(folder).json())


# --- a trace --------------------------------------------------------------------------------------

MESSAGES, FEATURES = 3, 5
RULES: dict[str, Fact] = {"click_model": "perfect", "pairs": "all", "normaliser": "shown"}


def write_trace(folder: Path) -> None:
    """A trace of two rounds with its truth, whose features are embedded."""
    dataset = TraceDataset(source="engine", fold=0, fingerprint="00", normalised="none", parts=("live",))
    header = TraceHeader(
        kind="update",
        dtype="float64",
        parameters=FEATURES,
        k=ROOM,
        dataset=dataset,
        has_truth=True,
        embeds_features=True,
        rounds_per_part=1,
        knowledge={"learning_rate": 0.1, "defense": ["none"], **RULES},
    )
    with TraceWriter(folder, header) as writer:
        for number in range(2):
            writer.write(*_round(number))


def _round(number: int) -> tuple[RoundRecord, RoundTruth]:
    rng = np.random.default_rng(number)
    features = rng.normal(size=(MESSAGES, ROOM, FEATURES)).astype(np.float32)
    clicks = np.eye(MESSAGES, ROOM, dtype=np.bool_)
    updates = (features * np.where(clicks, 1.0, -0.5)[..., np.newaxis]).sum(axis=1).astype(np.float64)
    places = np.arange(MESSAGES)
    record = round_of(
        updates,
        np.tile(np.arange(ROOM), (MESSAGES, 1)),
        round=number,
        aggregate=updates.mean(axis=0),
        features=features,
        senders=np.arange(MESSAGES, dtype=np.uint64) + np.uint64(2**63),
        sizes=np.full(MESSAGES, 100),
        sent_at=np.full(MESSAGES, 1.7e9),
        clear={"loss": np.array([0.5, np.nan, 0.25])},
        cohort=(
            NodeOutcome(node=0, outcome="arrived"),
            NodeOutcome(node=1, outcome="late", reason="x"),
        ),
        facts={"learning_rate": 0.2},
        candidates=np.concatenate(list(features)),
        n_candidates=np.full(MESSAGES, ROOM),
    )
    truth = RoundTruth(
        clients=places,
        updates=updates,
        clicks=clicks,
        clipped=np.zeros(MESSAGES, dtype=np.bool_),
        metrics={"online_ndcg@10": 0.5, "offline_ndcg@10": 0.5, "clipped": 0.0},
    )
    return record, truth
