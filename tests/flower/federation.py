"""Federations of Flower itself that are recorded; tests start them in an environment with Flower.

    python tests/flower/federation.py FOLDER CASE...

Nothing here imports foltr-audit: what is under test is the recorder alone, as a server would have it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from uuid import uuid4

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity
from foltr_audit_recorder import ShownList
from foltr_audit_recorder.flower import (
    RecordingGrid,
    RecordingStrategy,
    local_dp_facts,
    record_app,
    record_truth,
    recording_mod,
)

FEATURES, SHOWN, ROUNDS, CLIENTS, RATE = 16, 10, 3, 12, 0.1
NODES = [2**64 - 1 - 977 * number for number in range(CLIENTS)]  # real node ids: most do not fit int64


class LocalGrid(Grid):
    """A grid that calls a ClientApp in this process, on copies of the messages."""

    def __init__(self, app: ClientApp, silent: Iterable[int] = ()) -> None:
        self._app, self._silent, self._run, self._replies = app, set(silent), None, {}
        self._contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in NODES
        }

    def set_run(self, run: object) -> None:
        self._run = run

    @property
    def run(self) -> object:
        return self._run or type("Run", (), {"run_id": 1})()

    def create_message(self, *arguments: object, **options: object) -> Message:
        return Message(*arguments, **options)

    def get_node_ids(self) -> list[int]:
        return list(NODES)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            if message.metadata.dst_node_id not in self._silent:
                self._replies[ids[-1]] = self._reply(message)
        return ids

    def _reply(self, message: Message) -> Message:
        copy = Message(deepcopy(message.content), metadata=deepcopy(message.metadata))
        try:
            reply = self._app(copy, self._contexts[message.metadata.dst_node_id])
        except Exception as error:
            reply = Message(Error(2, repr(error)), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
        return reply

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(each) for each in message_ids if each in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))


def play(model: np.ndarray, node: int, number: int) -> tuple[np.ndarray, ShownList]:
    """One local step of a pairwise learner on one list: clicked documents up, the others down."""
    rng = np.random.default_rng([node % 2**32, number])
    features = rng.normal(size=(SHOWN, FEATURES)).astype(np.float32)
    clicks = rng.random(SHOWN) < 0.3
    step = RATE * (clicks - clicks.mean()) @ features.astype(np.float64)
    return (model + step).astype(np.float32), ShownList(features=features, clicks=clicks, query=number)


def client_app(mods: list[object], *, fails: Iterable[int] = (), consents: bool = True) -> ClientApp:
    """The app of the clients of the message API: one array, one counter, two metrics."""
    app, failing = ClientApp(), set(fails)

    @app.train(mods=[*mods, *([recording_mod] if consents else [])])
    def train(message: Message, context: Context) -> Message:
        if context.node_id in failing:
            raise RuntimeError("no battery")
        arrays = message.content["arrays"]
        number = int(message.content["config"]["server-round"])
        model, shown = play(arrays["weight"].numpy()[0], context.node_id, number)
        trained = {"weight": Array(model[None])}
        if "steps" in arrays:
            trained["steps"] = Array(np.array(number))
        metrics = MetricRecord({"num-examples": 1, "loss": 0.5})
        content = RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics})
        if consents:
            record_truth(content, [shown])
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 1, "ndcg": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def initial(weight: float = 0.0) -> ArrayRecord:
    """The first model."""
    weights = np.full((1, FEATURES), weight, dtype=np.float32)
    return ArrayRecord({"weight": Array(weights), "steps": Array(np.array(0))})


# --- cases --------------------------------------------------------------------------------------------


def plain(folder: Path) -> None:
    """The two lines, with failing, silent and evaluated nodes."""
    grid = LocalGrid(client_app([], fails=NODES[2:4]), silent=NODES[5:6])
    strategy = FedAvg()
    result = strategy.start(RecordingGrid(grid, folder / "trace", truth=True), initial(), num_rounds=ROUNDS)
    np.save(folder / "final.npy", result.arrays["weight"].numpy())


def no_consent(folder: Path) -> None:
    """Clients that tell nothing, no evaluation, and a strategy that tells the last aggregate."""
    grid = LocalGrid(client_app([], consents=False))
    strategy = RecordingStrategy(FedAvg(fraction_evaluate=0.0), folder / "trace")
    strategy.start(grid, initial(), num_rounds=ROUNDS)


def local_dp(folder: Path) -> None:
    """A defense mod between the recording mod and the server."""
    mod = LocalDpMod(clipping_norm=0.05, sensitivity=0.05, epsilon=50.0, delta=1e-5)
    grid = LocalGrid(client_app([mod]))
    recording = RecordingGrid(grid, folder / "trace", facts=local_dp_facts(mod), truth=True)
    arrays = initial()
    del arrays["steps"]  # the mod clips all arrays together, so a counter would take most of the ball
    result = FedAvg(fraction_evaluate=0.0).start(recording, arrays, num_rounds=ROUNDS)
    recording.close(result.arrays)


def pushes(folder: Path) -> None:
    """A loop of its own that pushes and pulls, without round numbers."""
    grid = RecordingGrid(LocalGrid(client_app([])), folder / "trace", truth=True)
    arrays = initial()
    for number in range(1, ROUNDS + 1):
        content = RecordDict({"arrays": arrays, "config": ConfigRecord({"server-round": number})})
        sent = (Message(content, node, "train") for node in grid.get_node_ids())
        ids = [next(iter(grid.push_messages([message]))) for message in sent]
        replies = [reply for each in ids for reply in grid.pull_messages([each])]
        assert not any("foltr-audit" in reply.content for reply in replies)
        arrays, _ = FedAvg().aggregate_train(number, replies)
    grid.close(arrays)


def personal(folder: Path) -> None:
    """A server that sends each client another model cannot be recorded, and goes on."""
    grid = RecordingGrid(LocalGrid(client_app([])), folder / "trace")
    messages = []
    for place, node in enumerate(NODES):
        config = ConfigRecord({"server-round": 1})
        messages.append(Message(RecordDict({"arrays": initial(place), "config": config}), node, "train"))
    assert len(grid.send_and_receive(messages)) == len(NODES)
    grid.close()


class LegacyClient(NumPyClient):
    """A client of the legacy API."""

    def __init__(self, node: int) -> None:
        self._node = node

    def fit(
        self, parameters: list[np.ndarray], config: dict[str, object]
    ) -> tuple[object, int, dict[str, object]]:
        number = int(str(config["server-round"]))
        model, shown = play(parameters[0].astype(np.float32), self._node, number)
        metrics = {"clicks": int(np.sum(shown.clicks))}
        record_truth(metrics, [shown])
        return [model], 1, metrics

    def evaluate(
        self, parameters: list[np.ndarray], config: dict[str, object]
    ) -> tuple[float, int, dict[str, object]]:
        return 0.5, 1, {"ndcg": 0.5}


def legacy_app(mods: list[object]) -> ClientApp:
    return ClientApp(client_fn=lambda context: LegacyClient(context.node_id).to_client(), mods=mods)


def legacy_strategy() -> object:
    from flwr.common import ndarrays_to_parameters
    from flwr.server.strategy import FedAvg as LegacyFedAvg

    return LegacyFedAvg(
        initial_parameters=ndarrays_to_parameters([np.zeros(FEATURES, dtype=np.float32)]),
        on_fit_config_fn=lambda number: {"server-round": number},
    )


def server_fn(folder: Path) -> None:
    """A legacy ServerApp, which hands out no grid: its clients are called from threads."""
    from flwr.compat.server import ServerAppComponents
    from flwr.server import ServerConfig

    app = ServerApp(
        server_fn=lambda context: ServerAppComponents(
            strategy=legacy_strategy(), config=ServerConfig(num_rounds=ROUNDS)
        )
    )
    recorded = record_app(app, folder / "trace", truth=True)
    recorded(LocalGrid(legacy_app([recording_mod])), Context(1, 0, {}, RecordDict(), {}))


def secagg(folder: Path) -> None:
    """SecAgg+, with a node that drops out after it shared its keys."""
    from flwr.client.mod import secaggplus_mod
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

    dropped = NODES[4]

    def drops(message: Message, context: Context, call_next: Callable[..., Message]) -> Message:
        if context.node_id == dropped and "fitins.parameters" in message.content:
            raise RuntimeError("lost")
        return call_next(message, context)

    grid = LocalGrid(legacy_app([drops, secaggplus_mod, recording_mod]))
    recording = RecordingGrid(grid, folder / "trace", truth=True)
    context = LegacyContext(
        context=Context(1, 0, {}, RecordDict(), {}),
        config=ServerConfig(num_rounds=ROUNDS),
        strategy=RecordingStrategy(legacy_strategy(), recording),
    )
    workflow = SecAggPlusWorkflow(num_shares=5, reconstruction_threshold=3, max_weight=1.0)
    DefaultWorkflow(fit_workflow=workflow)(recording, context)
    recording.close()


def killed(folder: Path) -> None:
    """A server that says when its third round is under way, and waits to be killed."""
    inner = client_app([])

    def stuck(message: Message, context: Context, call_next: Callable[..., Message]) -> Message:
        if int(message.content["config"]["server-round"]) == ROUNDS:
            (folder / "stuck").touch()
            threading.Event().wait(120)
        return call_next(message, context)

    app = ClientApp()
    app.train(mods=[stuck])(lambda message, context: inner(message, context))
    recording = RecordingGrid(LocalGrid(app), folder / "trace")
    FedAvg(fraction_evaluate=0.0).start(recording, initial(), num_rounds=ROUNDS)


def spoil(content: RecordDict, node: int) -> None:
    """Make of a reply what no trace can hold, by the place of its node among all."""
    place, steps = NODES.index(node), Array(np.array(1))
    wide, nan = (np.full(shape, np.nan, np.float32) for shape in ((2, FEATURES), (1, FEATURES)))
    names = dict.fromkeys(("x\0", "x", "n" * 100_000, "\x1b[2J"), 1.0)
    npy = {"dtype": "float32", "shape": (1, FEATURES), "stype": "numpy.ndarray"}
    tricks: dict[int, tuple[str, object]] = {
        0: ("arrays", ArrayRecord({"weight": Array(wide), "steps": steps})),
        1: ("arrays", ArrayRecord({"weight": Array(nan), "steps": steps})),
        2: ("arrays", ArrayRecord({"weight": Array(**npy, data=b"no array"), "steps": steps})),
        3: ("arrays", ArrayRecord({"weight": Array(**{**npy, "stype": "other"}, data=b""), "steps": steps})),
        4: ("metrics", MetricRecord({"num-examples": 1e300})),
        5: ("foltr-audit", ConfigRecord({"lists": b"no lists", "update": b"no update"})),
        6: ("metrics", MetricRecord({"num-examples": 1, **names})),
        7: ("foltr-audit", ArrayRecord({"lists": Array(np.zeros(3))})),
        8: ("metrics", MetricRecord({"num-examples": float("nan")})),
        9: ("metrics", MetricRecord({"num-examples": -0.5})),
    }
    if place in tricks:
        name, record = tricks[place]
        content[name] = record


def hostile(folder: Path) -> None:
    """Clients that send what no trace can hold, to servers that want to be told something and that do not."""
    inner = client_app([])

    def spoiled(message: Message, context: Context, call_next: Callable[..., Message]) -> Message:
        reply = call_next(message, context)
        spoil(reply.content, context.node_id)
        return reply

    for name, truth in (("trace", True), ("unasked", False)):
        app = ClientApp()
        app.train(mods=[spoiled])(lambda message, context: inner(message, context))
        with RecordingGrid(LocalGrid(app), folder / name, truth=truth) as grid:
            for number in (1, 2):
                content = RecordDict({"arrays": initial(), "config": ConfigRecord({"server-round": number})})
                replies = grid.send_and_receive([Message(content, node, "train") for node in NODES])
                assert len(replies) == len(NODES)
                assert not any("foltr-audit" in reply.content for reply in replies)


def weights(folder: Path) -> None:
    """A strategy that weighs by a metric of its own, which is not whole."""
    inner = client_app([], consents=False)

    def weighed(message: Message, context: Context, call_next: Callable[..., Message]) -> Message:
        reply = call_next(message, context)
        reply.content["metrics"]["quality"] = (NODES.index(context.node_id) + 1) / 5
        return reply

    app = ClientApp()
    app.train(mods=[weighed])(lambda message, context: inner(message, context))
    strategy = FedAvg(fraction_evaluate=0.0, weighted_by_key="quality")
    RecordingStrategy(strategy, folder / "trace").start(LocalGrid(app), initial(), num_rounds=ROUNDS)


def nobody(folder: Path) -> None:
    """Clients that all fail, that never answer, and that all fail in the first rounds alone."""
    failing, silent = LocalGrid(client_app([], fails=NODES)), LocalGrid(client_app([]), silent=NODES)
    for name, grid in (("trace", failing), ("silent", silent)):
        for more in ("", "-told"):
            recording = RecordingGrid(grid, folder / f"{name}{more}")
            strategy = RecordingStrategy(FedAvg(), recording) if more else FedAvg()
            recording.close(strategy.start(recording, initial(), num_rounds=ROUNDS).arrays)
    inner = client_app([])

    def recovers(message: Message, context: Context, call_next: Callable[..., Message]) -> Message:
        if int(message.content["config"]["server-round"]) < ROUNDS:
            raise RuntimeError("no battery")
        return call_next(message, context)

    app = ClientApp()
    app.train(mods=[recovers])(lambda message, context: inner(message, context))
    with RecordingGrid(LocalGrid(app), folder / "recovers") as recording:
        FedAvg(fraction_evaluate=0.0).start(recording, initial(), num_rounds=ROUNDS)


def twice(folder: Path) -> None:
    """Two trainings after each other on one grid, without evaluation: the second begins anew."""
    with RecordingGrid(LocalGrid(client_app([], consents=False)), folder / "trace") as grid:
        for _ in range(2):
            FedAvg(fraction_evaluate=0.0).start(grid, initial(), num_rounds=2)


CASES = (
    plain,
    no_consent,
    local_dp,
    pushes,
    personal,
    server_fn,
    secagg,
    hostile,
    weights,
    nobody,
    twice,
    killed,
)

if __name__ == "__main__":
    # What Flower's own processes are started with.
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
    for case in sys.argv[2:]:
        place = Path(sys.argv[1]) / case
        place.mkdir(parents=True, exist_ok=True)
        next(each for each in CASES if each.__name__ == case)(place)
