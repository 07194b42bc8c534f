"""Run the app in this process, with Flower's messages and without its network: fast, and easy to debug.

python in_process.py nodes=50 rounds=20 data=/data/mq2008 trace=/tmp/lab
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from random import Random
from uuid import uuid4

from federated_search.client_app import app as client_app
from federated_search.server_app import app as server_app
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

HERE = Path(__file__).parent
FAILED = 2  # Flower's code for a ClientApp that raised an error


class InProcessGrid(Grid):
    """Hands messages to the ClientApp of each node, in turn."""

    def __init__(self, nodes: int, config: dict) -> None:
        draw = Random(1)  # node ids of Flower fill 64 bits  # noqa: S311
        self._replies: dict[str, Message] = {}
        self._contexts: dict[int, Context] = {}
        for partition in range(nodes):
            node = draw.getrandbits(64)
            here = {"partition-id": partition, "num-partitions": nodes}
            self._contexts[node] = Context(1, node, here, RecordDict(), config)

    def set_run(self, run: object) -> None:
        """There is one run."""

    @property
    def run(self) -> object:
        """The run, by its number."""
        return type("Run", (), {"run_id": 1})()

    def create_message(self, *arguments: object, **options: object) -> Message:
        """A message."""
        return Message(*arguments, **options)

    def get_node_ids(self) -> list[int]:
        """The nodes."""
        return list(self._contexts)

    def get_nodes(self) -> list[object]:
        """Nothing is known of them but their ids."""
        return []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Call the ClientApp for each message."""
        sent = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            self._replies[message.metadata.message_id] = self._reply(message)
            sent.append(message.metadata.message_id)
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies to some messages."""
        return [self._replies.pop(number) for number in message_ids]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Both, at once."""
        del timeout
        return self.pull_messages(self.push_messages(messages))

    def _reply(self, message: Message) -> Message:
        copy = deepcopy(message)  # as if it had been sent
        try:
            return client_app(copy, self._contexts[message.metadata.dst_node_id])
        except Exception as error:
            return Message(Error(FAILED, repr(error)), reply_to=copy)


def main() -> None:
    """Run the federation that the arguments name, with the app's own settings for the rest."""
    settings = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
    config = {"nodes": 50, **settings["tool"]["flwr"]["app"]["config"]}
    for argument in sys.argv[1:]:
        name, _, text = argument.partition("=")
        if name not in config:
            sys.exit(f"unknown setting {name!r}; expected one of {', '.join(config)}")
        kind = type(config[name])
        config[name] = text == "true" if kind is bool else kind(text)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    grid = InProcessGrid(config.pop("nodes"), config)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))


if __name__ == "__main__":
    main()
