"""Declarations of the options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Folder or file with LETOR data, or synthetic:NAME[:QUERIES]. Default: synthetic:mq2007.",
        rich_help_panel="Data",
    ),
]
Fold = Annotated[
    str | None, typer.Option("--fold", help="Fold K of FoldK folders, or all.", rich_help_panel="Data")
]
Normalise = Annotated[
    str | None,
    typer.Option(
        "--normalise",
        help="zscore (statistics of the training part), zscore-parts (of each part), query-minmax or none. "
        "Default: zscore.",
        rich_help_panel="Data",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Numbers of the features: float32 (default) or float64.",
        rich_help_panel="Data",
    ),
]
Intents = Annotated[
    str | None,
    typer.Option(
        "--intents",
        help="Folder of TREC qrels per intent (1.txt, 2.txt, ...), or synthetic[:I] for made-up ones.",
        rich_help_panel="Data",
    ),
]
Balance = Annotated[
    bool | None,
    typer.Option(
        "--balance/--no-balance",
        help="Number each query's intents anew at random, by seed and run. Default: yes.",
        rich_help_panel="Data",
    ),
]
Clients = Annotated[
    int | None,
    typer.Option("--clients", help="Number of clients. Default: 1000.", rich_help_panel="Federation"),
]
Cohort = Annotated[
    int | None,
    typer.Option(
        "--cohort", help="Clients sampled for each round. Default: all.", rich_help_panel="Federation"
    ),
]
Scenario = Annotated[
    list[str] | None,
    typer.Option(
        "--scenario",
        help="Who the clients are; several are joined, as by +. Default: uniform.",
        rich_help_panel="Federation",
    ),
]
Learner = Annotated[
    list[str] | None,
    typer.Option(
        "--learner",
        help="fpdgd (default), foltr-es, pdgd, dbgd or coltr, with parameters as in "
        "pdgd:batch=100. Several: one run per learner.",
        rich_help_panel="Federation",
    ),
]
Interactions = Annotated[
    int | None,
    typer.Option(
        "--interactions",
        help="Interactions B of a client in a round. Default: 4.",
        rich_help_panel="Federation",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", help="Number of rounds. Default: 20.", rich_help_panel="Federation"),
]
LearningRate = Annotated[
    float | None,
    typer.Option(
        "--learning-rate",
        help="Step size. Default: the learner's own; 0.1 of fpdgd.",
        rich_help_panel="Federation",
    ),
]
Pdgd = Annotated[
    str | None,
    typer.Option(
        "--pdgd",
        help="PDGD setting: oosterhuis-2018 (default of train), pham-2022 (default of attack), "
        "or PAIRS/NORMALISER with all|last-click+1 and shown|candidates.",
        rich_help_panel="Federation",
    ),
]
ClipWithoutPairs = Annotated[
    bool | None,
    typer.Option(
        "--clip-without-pairs/--no-clip-without-pairs",
        help="Clip also after an interaction without pairs. Default: yes.",
        rich_help_panel="Federation",
    ),
]
RankWith = Annotated[
    str | None,
    typer.Option(
        "--rank-with",
        help="Model that ranks the lists of a round: local (default), the client's own, which has learnt "
        "from the clicks on earlier lists; or global.",
        rich_help_panel="Federation",
    ),
]
Ranker = Annotated[
    str | None,
    typer.Option(
        "--ranker",
        help="linear (default), or neural:hidden=H,layers=L with L of 1 or 2; neural: 64 units, 1 layer.",
        rich_help_panel="Federation",
    ),
]
Init = Annotated[
    str | None,
    typer.Option(
        "--init", help="Start from a model: a .npy file or a Run folder.", rich_help_panel="Federation"
    ),
]
NoRelevant = Annotated[
    str | None,
    typer.Option(
        "--no-relevant",
        help="How queries without relevant documents count in nDCG: zero or skip. Default: zero.",
        rich_help_panel="Federation",
    ),
]
EvaluateEvery = Annotated[
    int | None,
    typer.Option(
        "--evaluate-every",
        help="Take nDCG on the test part after every K rounds and the last one. Default: 1.",
        rich_help_panel="Federation",
    ),
]
Message = Annotated[
    str | None,
    typer.Option(
        "--message", help="What clients send: model (default) or update.", rich_help_panel="Federation"
    ),
]
MessageDtype = Annotated[
    str | None,
    typer.Option(
        "--message-dtype",
        help="Numbers of a message: float32 (default) or float64.",
        rich_help_panel="Federation",
    ),
]
Eps = Annotated[
    list[float] | None,
    typer.Option(
        "--eps",
        help="The learner's published defense: of fpdgd a clip at D/2 and Gamma shares of scale D/eps, of "
        "foltr-es metric-rr; inf: none. Several: one run per value.",
        rich_help_panel="Defense",
    ),
]
Sensitivity = Annotated[
    float | None,
    typer.Option("--sensitivity", help="D of --eps. Default: 3.", rich_help_panel="Defense"),
]
Defense = Annotated[
    list[str] | None,
    typer.Option(
        "--defense",
        help="A chain, links joined by +, e.g. clip:norm=3+gaussian:sigma=2. Several: as many systems.",
        rich_help_panel="Defense",
    ),
]
Runs = Annotated[
    int | None,
    typer.Option(
        "--runs", help="Repetitions; run i uses fold i mod K. Default: 1 (compare: 3), or K with --fold all."
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of everything. Default: 1.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder for traces, model and results (compare: cells).")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the Run in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the Run in --out.")]
TraceEvery = Annotated[
    int | None,
    typer.Option("--trace-every", help="Record the messages of every K-th training round. Default: 1."),
]
NoTrace = Annotated[
    bool, typer.Option("--no-trace", help="Record no messages of training rounds; --resume still works.")
]
EmbedFeatures = Annotated[
    bool | None,
    typer.Option(
        "--embed-features", help="Store the shown documents' features in the trace too.", show_default=False
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Start from a Spec or plan (compare: grid) in TOML; options override it."),
]
SaveConfig = Annotated[Path | None, typer.Option("--save-config", help="Write the Spec or plan to a file.")]
Plot = Annotated[
    list[Path] | None,
    typer.Option(
        "--plot",
        metavar="FILE.svg|png|pdf",
        help="Draw the learning curves into a file; may be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Number of threads; never changes a result.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Processes that run cells side by side. Default: one per core."),
]
Backend = Annotated[
    Literal["local", "dask", "ray"],
    typer.Option("--backend", help="Where cells run: the cores of this machine, or a cluster."),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="Address of the cluster's scheduler. Default: start one here."),
]
