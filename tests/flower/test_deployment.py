"""A federation of processes, recorded by two lines: `flwr run`, a SuperLink and SuperNodes on one machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import foltr_audit as fa
from foltr_audit.trace import Trace, validate
from tests.fixtures.import_graph import ROOT
from tests.fixtures.result_rows import plain
from tests.flower.test_federation import python_with_flower

NODES, ROUNDS = 2, 2
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "recorded"
version = "1.0.0"
license = "MIT"
dependencies = ["flwr>=1.41,<1.42"]

[tool.flwr.app]
publisher = "tests"

[tool.flwr.app.components]
serverapp = "recorded_app:server"
clientapp = "recorded_app:client"

[tool.flwr.app.config]
trace = "trace"
"""
APP = f"""
import federation
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from foltr_audit_recorder.flower import RecordingGrid

server = ServerApp()
client = federation.client_app([])

@server.main()
def main(grid, context):
    recording = RecordingGrid(grid, context.run_config["trace"], truth=True)
    FedAvg().start(recording, federation.initial(), num_rounds={ROUNDS})
"""
Start = Callable[..., "subprocess.Popen[bytes]"]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program of the environment with Flower; all are ended with what they have started."""
    python = python_with_flower()
    settings = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'recorder'}:{ROOT / 'tests' / 'flower'}",
        "FLWR_HOME": str(tmp_path / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    running: list[subprocess.Popen[bytes]] = []

    def started(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{name}-{len(running)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(python.with_name(name)), *arguments],
                env={**os.environ, **settings},
                cwd=tmp_path,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        running.append(process)
        return process

    yield started
    for process in reversed(running):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
    for process in running:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(port: int) -> None:
    """Until somebody listens on a port."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"nobody listens on port {port}")


@pytest.mark.slow
def test_a_federation_of_processes_is_recorded_and_attacked(start: Start, tmp_path: Path) -> None:
    port, *own = free_ports(NODES + 1)
    app, home = tmp_path / "app", tmp_path / "home"
    app.mkdir()
    home.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "recorded_app.py").write_text(APP)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    here = ("--host", "127.0.0.1", "--port", str(port))
    start("flower-superlink", "--insecure", *here, "--disable-runtime-dependency-installation")
    wait_for(port)
    for each in own:
        start("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(each))
    for each in own:
        wait_for(each)
    trace = tmp_path / "trace"
    run = start("flwr", "run", str(app), "here", "--stream", "-c", f"trace='{trace}'")
    assert run.wait(400) == 0, (tmp_path / f"flwr-{NODES + 1}.log").read_text()[-2000:]
    deadline = time.monotonic() + 30  # the last round is written when the server's process ends
    while len(list(trace.glob("part-*.json"))) < ROUNDS and time.monotonic() < deadline:
        time.sleep(0.2)
    assert validate(trace) == []
    rounds = list(Trace.open(trace).rounds())
    assert [record.n_messages for record in rounds] == [NODES] * ROUNDS
    assert rounds[0].aggregate.tolist() == rounds[1].parameters.tolist()
    report = fa.attack_trace(trace, ["olsr"])
    row = next(row for row in plain(report.results) if row["method"] == "olsr")
    assert row["exact"] == 1.0
