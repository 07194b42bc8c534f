"""A Flower server with many clients, recorded and not: a program of the environment with Flower.

    python -m benchmarks.flower_server CLIENTS PARAMETERS REPETITIONS

prints seconds of processor time of each pair as JSON. Clients are not counted: their replies lie ready as the
bytes of the wire. The server turns its messages into such bytes and replies back into messages, as Flower's
`HttpGrid` does; the network itself is left out.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from foltr_audit_recorder.flower import RecordingGrid


class WireGrid:
    """A grid whose nodes answer at once.

    Args:
        nodes: how many.
        parameters: how many numbers a model has.
    """

    def __init__(self, nodes: int, parameters: int) -> None:
        self._nodes = [2**64 - 1 - node for node in range(nodes)]
        self._models = np.random.default_rng(1).normal(size=(nodes, 1, parameters)).astype(np.float32)
        self.client_seconds = 0.0

    def get_node_ids(self) -> list[int]:
        return self._nodes

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Messages to bytes, and bytes to replies."""
        going = list(messages)
        begin = time.process_time()
        replies = [self._reply(place, message) for place, message in enumerate(going)]
        self.client_seconds += time.process_time() - begin
        for message in going:
            for inner in get_all_nested_objects(message).values():
                inner.deflate()
            get_object_tree(message)
        return [inflate_object_from_contents(name, contents) for name, contents in replies]

    def _reply(self, place: int, message: Message) -> tuple[str, dict[str, bytes]]:
        arrays = ArrayRecord({"weight": Array(self._models[place])})
        metrics = MetricRecord({"num-examples": 1, "loss": 0.5})
        reply = Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
        contents = {name: inner.deflate() for name, inner in get_all_nested_objects(reply).items()}
        return reply.object_id, contents


def seconds(nodes: int, parameters: int, trace: Path | None) -> float:
    """Processor time that a server takes for one round."""
    inner = WireGrid(nodes, parameters)
    first = ArrayRecord({"weight": Array(np.zeros((1, parameters), dtype=np.float32))})
    begin = time.process_time()
    grid = inner if trace is None else RecordingGrid(inner, trace)
    result = FedAvg(fraction_evaluate=0.0).start(grid, first, num_rounds=1)
    if trace is not None:
        grid.close(result.arrays)
    return time.process_time() - begin - inner.client_seconds


def main(nodes: int, parameters: int, repetitions: int) -> None:
    """Measure pairs, and print them and the size of a trace."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SUPERLINK_NODE_ID
    seconds(min(nodes, 50), parameters, None)  # imports and caches
    pairs, size = [], 0
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace"
            pairs.append((seconds(nodes, parameters, None), seconds(nodes, parameters, trace)))
            size = sum(path.stat().st_size for path in trace.rglob("*") if path.is_file())
    print(json.dumps({"pairs": pairs, "bytes": size}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
