"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foltr_audit.cli.options import OptionRecord, option

LEARNER = "learner."
"""Where the settings of a learner begin among the fields that options set: they are no fields of a Spec."""

_DATA, _FEDERATION, _DEFENSE = "Data", "Federation", "Defense"


@dataclass(frozen=True, kw_only=True)
class SharedOptions(OptionRecord):
    """The options that several commands share."""

    eps: list[float] | None = option(
        "Epsilon of the learner's published defense, inf for none: fpdgd clips at D/2 and adds Gamma "
        "shares of scale D/eps, foltr-es takes metric-rr. May be repeated: one run for each value.",
        panel=_DEFENSE,
    )
    sensitivity: float | None = option("Sensitivity D of --eps. Default: 3.", panel=_DEFENSE)
    defense: list[str] | None = option(
        "A chain of defenses joined by +, e.g. clip:norm=3+gaussian:sigma=2. May be repeated: one system "
        "for each chain.",
        panel=_DEFENSE,
    )
    data: str | None = option(
        "Folder or file with LETOR data, or synthetic:NAME[:QUERIES]. Default: synthetic:mq2007.",
        "data.source",
        _DATA,
    )
    fold: str | None = option("Number K of a FoldK folder, or all.", panel=_DATA)
    normalise: str | None = option(
        "zscore (statistics of the training part), zscore-parts (of each part), query-minmax or none. "
        "Default: zscore.",
        "data.normalise",
        _DATA,
    )
    dtype: str | None = option(
        "Type of the features: float32 or float64. Default: float32.", "data.dtype", _DATA
    )
    intents: str | None = option(
        "Folder with TREC qrels for each intent (1.txt, 2.txt, ...), or synthetic[:I] for synthetic ones.",
        "data.intents",
        _DATA,
    )
    balance: bool | None = option(
        "Renumber each query's intents at random, by seed and run. Default: yes.", "data.balance", _DATA
    )
    clients: int | None = option("Number of clients. Default: 1000.", "population.clients", _FEDERATION)
    cohort: int | None = option(
        "Number of clients sampled for each round. Default: all.", "population.cohort", _FEDERATION
    )
    scenario: list[str] | None = option(
        "How clients differ. May be repeated: scenarios are combined, as with +. Default: uniform.",
        "population.scenario",
        _FEDERATION,
        read="+".join,
    )
    learner: list[str] | None = option(
        "fpdgd, foltr-es, pdgd, dbgd or coltr, with parameters as in pdgd:batch=100. May be repeated: "
        "one run for each learner. Default: fpdgd.",
        panel=_FEDERATION,
    )
    interactions: int | None = option(
        "Number B of interactions of a client in a round. Default: 4.", f"{LEARNER}interactions", _FEDERATION
    )
    rounds: int | None = option("Number of rounds. Default: 20.", "train.rounds", _FEDERATION)
    learning_rate: float | None = option(
        "Step size. Default: that of the learner; 0.1 for fpdgd.", f"{LEARNER}learning_rate", _FEDERATION
    )
    pdgd: str | None = option(
        "PDGD setting: oosterhuis-2018, pham-2022, or PAIRS/NORMALISER with all|last-click+1 and "
        "shown|candidates. Default: oosterhuis-2018 in train, pham-2022 in attack.",
        panel=_FEDERATION,
    )
    clip_without_pairs: bool | None = option(
        "Clip also after an interaction without pairs. Default: yes.",
        f"{LEARNER}clip_without_pairs",
        _FEDERATION,
    )
    rank_with: str | None = option(
        "Model that ranks the lists of a round: local, the client's own, which learns from the clicks on "
        "earlier lists; or global. Default: local.",
        f"{LEARNER}rank_with",
        _FEDERATION,
    )
    ranker: str | None = option(
        "linear, or neural:hidden=H,layers=L with L of 1 or 2; neural alone has 64 units in 1 layer. "
        "Default: linear.",
        "train.ranker",
        _FEDERATION,
    )
    init: str | None = option("Start from a model: a .npy file or a Run folder.", "train.init", _FEDERATION)
    no_relevant: str | None = option(
        "How queries without relevant documents count in nDCG: zero or skip. Default: zero.",
        "train.no_relevant",
        _FEDERATION,
    )
    evaluate_every: int | None = option(
        "Compute nDCG on the test part after every K rounds and after the last one. Default: 1.",
        "train.evaluate_every",
        _FEDERATION,
    )
    message: str | None = option(
        "What clients send: model or update. Default: model.", "trace.message", _FEDERATION
    )
    message_dtype: str | None = option(
        "Type of the numbers in a message: float32 or float64. Default: float32.", "trace.dtype", _FEDERATION
    )
    runs: int | None = option(
        "Number of repetitions; run i uses fold i mod K. Default: 1 (compare: 3), or K with --fold all."
    )
    seed: int | None = option("Seed of all random draws. Default: 1.", "seed")
    out: Path | None = option("Folder for traces, the model and results (compare: cells).")
    resume: bool = option("Resume the Run in --out.", name="--resume", default=False)
    overwrite: bool = option("Replace the Run in --out.", name="--overwrite", default=False)
    trace_every: int | None = option(
        "Record the messages of every K-th training round. Default: 1.", "trace.every"
    )
    no_trace: bool = option(
        "Record no messages of training rounds. --resume still works.", name="--no-trace", default=False
    )
    embed_features: bool | None = option(
        "Store the features of the shown documents in the trace.",
        "trace.embed_features",
        name="--embed-features",
    )
    config: Path | None = option("Start from a Spec or plan (compare: a grid) in TOML. Options override it.")
    save_config: Path | None = option("Write the Spec or plan to a file.")
    json: bool = option("Print one JSON object instead of tables.", name="--json", default=False)
    threads: int | None = option("Number of threads. Results do not depend on it.")
