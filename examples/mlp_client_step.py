"""Attack a learner of one's own: a PyTorch network with one hidden layer, on recorded messages.

    python examples/mlp_client_step.py /data/mq2008 out

Plays clients that train in float32 with `torch.optim`, records their messages, and attacks these with a
client step of three lines. Prints a table for one step, five epochs, Adam and dropout, with and without
noise.
Needs PyTorch: `pip install '.[torch]'` in a checkout.
"""

from __future__ import annotations

import argparse
import copy
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import foltr_audit as fa

SHARES, SCALE = 1000, 2.5  # noise shares of 1,000 clients at sensitivity 3 and epsilon 1.2
METHODS = ("olsr", "lad", "map", "unit-votes")
CLICK, STOP = (0.4, 0.7, 0.9), (0.1, 0.3, 0.5)  # informational users


@dataclass(frozen=True)
class Learner:
    """How the clients learn."""

    epochs: int = 1
    dropout: float = 0.0
    adam: bool = False
    noise: bool = True

    @property
    def title(self) -> str:
        """A name for the table."""
        steps = "one step" if self.epochs == 1 else f"{self.epochs} epochs"
        more = (", Adam" if self.adam else "") + (f", dropout {self.dropout}" if self.dropout else "")
        return steps + more + ("" if self.noise else ", no noise")

    @property
    def rate(self) -> float:
        """Step size."""
        return 0.01 if self.adam else 0.1


def network(dropout: float = 0.0) -> torch.nn.Module:
    """46 features, 16 hidden units, a score."""
    return torch.nn.Sequential(
        torch.nn.Linear(46, 16), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(16, 1)
    )


def loss(scores: torch.Tensor, clicks: torch.Tensor) -> torch.Tensor:
    """Listwise softmax: the negative log probability of each clicked document."""
    return -(clicks * torch.log_softmax(scores, dim=0)).sum()


def train(module: torch.nn.Module, rows: torch.Tensor, clicks: torch.Tensor, learner: Learner) -> None:
    """What a client does: ordinary PyTorch, in float32."""
    kind = torch.optim.Adam if learner.adam else torch.optim.SGD
    optimizer = kind(module.parameters(), lr=learner.rate)
    for _ in range(learner.epochs):
        optimizer.zero_grad()
        loss(module(rows).reshape(-1), clicks).backward()
        optimizer.step()


def flat(module: torch.nn.Module) -> np.ndarray:
    """The weights as one vector, in the order of the state dict."""
    return np.concatenate([one.numpy().reshape(-1) for one in module.state_dict().values()])


def clicked(grades: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A user who reads down the list."""
    clicks = np.zeros(len(grades), dtype=bool)
    for place, grade in enumerate(grades):
        clicks[place] = rng.random() < CLICK[grade]
        if clicks[place] and rng.random() < STOP[grade]:
            break
    return clicks


def record(folder: Path, data: fa.Dataset, learner: Learner, messages: int) -> None:
    """A trace of one round: clients rank ten documents, click, train and send their model."""
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    module = network(learner.dropout)
    queries, optimizer = np.flatnonzero(data.lengths >= 10), torch.optim.Adam(module.parameters())
    for query in rng.choice(queries, size=300):
        rows = slice(data.offsets[query], data.offsets[query + 1])
        optimizer.zero_grad()
        grades = torch.from_numpy(data.labels[rows].astype(np.float32))
        loss(module(torch.tensor(data.features[rows])).reshape(-1), grades).backward()
        optimizer.step()
    before = flat(module)
    sent, shown, features, clicks = [], [], [], []
    for query in rng.choice(queries, size=messages):
        rows = np.arange(data.offsets[query], data.offsets[query + 1])
        with torch.no_grad():
            scores = copy.deepcopy(module).eval()(torch.tensor(data.features[rows])).numpy()[:, 0]
        order = np.argsort(-(scores + rng.gumbel(size=scores.size)))[:10]
        chosen = clicked(data.labels[rows[order]], rng)
        client = copy.deepcopy(module)
        train(
            client,
            torch.tensor(data.features[rows[order]]),
            torch.from_numpy(chosen.astype(np.float32)),
            learner,
        )
        share = rng.gamma(1 / SHARES, SCALE, before.size) - rng.gamma(1 / SHARES, SCALE, before.size)
        sent.append((flat(client) + share * learner.noise).astype(np.float32))
        shown.append(order)
        features.append(data.features[rows[order]])
        clicks.append(chosen)
    _write(folder, before, np.stack(sent), np.stack(shown), np.stack(features), np.stack(clicks), learner)


def _write(
    folder: Path,
    before: np.ndarray,
    sent: np.ndarray,
    shown: np.ndarray,
    features: np.ndarray,
    clicks: np.ndarray,
    learner: Learner,
) -> None:
    n = len(sent)
    noise = f"gamma-share:n={SHARES},scale={SCALE}" if learner.noise else "none"
    header = fa.TraceHeader(
        kind="model",
        dtype="float32",
        parameters=before.size,
        k=10,
        ranker="mlp",
        dataset=fa.TraceDataset(source="", fold=0, fingerprint="", normalised="none", parts=("live",)),
        has_truth=True,
        embeds_features=True,
        knowledge={"interactions": 1, "noise": noise},
    )
    round_ = fa.RoundRecord(
        round=0,
        parameters=before,
        aggregate=sent.astype(np.float64).mean(axis=0),
        shares=n,
        survivors=np.ones(n, dtype=bool),
        counts=np.ones(n, dtype=np.int64),
        messages=sent,
        slot=np.arange(n),
        step=np.zeros(n, dtype=np.int64),
        part=np.zeros(n, dtype=np.int64),
        query=np.arange(n),
        shown=shown,
        features=features,
    )
    truth = fa.RoundTruth(
        clients=np.arange(n),
        updates=sent.astype(np.float64) - before,
        clicks=clicks,
        clipped=np.zeros(n, dtype=bool),
    )
    with fa.TraceWriter(folder, header) as writer:
        writer.write(round_, truth)


def main() -> None:
    """Record and attack each learner."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="a LETOR data set with 46 features, such as MQ2008")
    parser.add_argument("out", type=Path, help="a new folder for the traces")
    parser.add_argument("--messages", type=int, default=200)
    given = parser.parse_args()
    data = fa.load_data(given.data, normalise="none").train
    learners = [
        Learner(),
        Learner(noise=False),
        Learner(epochs=5),
        Learner(epochs=5, adam=True),
        Learner(dropout=0.5),
        Learner(dropout=0.5, noise=False),
    ]
    print(f"exact lists of {given.messages}: {', '.join(METHODS)}")
    for number, learner in enumerate(learners):
        folder = given.out / str(number)
        record(folder, data, learner, given.messages)
        step = fa.torch_module_step(
            network(learner.dropout),
            loss,
            lr=learner.rate,
            epochs=learner.epochs,
            optimizer="adam" if learner.adam else "sgd",
            draws=8,
        )
        found = {}
        for method in METHODS:
            start = time.perf_counter()
            report = fa.attack_trace(folder, [method], step=step)
            took = 1000 * (time.perf_counter() - start) / given.messages
            row = next(row for row in report.table()["results"] if row["method"] == method)
            found[method] = f"{row['exact']:.3f} ({row['auc']:.3f}, {took:.0f} ms)"
        print(f"{learner.title:32}", *found.values(), sep="  ", flush=True)


if __name__ == "__main__":
    main()
