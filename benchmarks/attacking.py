"""Speed of the offline evaluation and of the main attack."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.engine import on_threads, threads_here
from benchmarks.figures import Figure
from benchmarks.options import Options
from benchmarks.shapes import CLICK_MODEL, Shape, mq2007, mslr
from benchmarks.timing import Contestant, interleave
from foltr_audit.experiment import make_attacks
from foltr_audit.federation import Evaluation
from foltr_audit.fresh import FreshClients
from foltr_audit.judge import infer_round
from foltr_audit.recording import MemoryRecording, trace_header
from foltr_audit.setup import Setup
from foltr_audit.spec import AttackSpec


def attacking(options: Options) -> list[Figure]:
    """Evaluation time and attacked updates a second on both shapes."""
    figures = []
    for shape in (mq2007(options), mslr(options)):
        setup = shape.whole(shape.collection())
        figures += _evaluation(shape, setup, options)
        figures += _attack(shape, setup, options)
    return figures


def _evaluation(shape: Shape, setup: Setup, options: Options) -> list[Figure]:
    evaluation, parameters = Evaluation(setup), setup.ranker.initial()

    def on(count: int) -> Callable[[int], None]:
        def work(n: int) -> None:
            with on_threads(count):
                for _ in range(n):
                    evaluation.ndcg(parameters)

        return work

    queries = setup.collection.test.n_queries
    contestants = [Contestant(str(count), on(count), queries) for count in threads_here()]
    rates = interleave(contestants, options.turns, options.least)
    return [
        Figure.of(
            f"{shape.name}.evaluation_{count}",
            f"evaluation on {queries} test queries, threads: {count}",
            rates.rate(count),
            "queries/s",
        )
        for count in rates.by_name
    ]


def _attack(shape: Shape, setup: Setup, options: Options) -> list[Figure]:
    clients = FreshClients(setup, AttackSpec(min_documents=1))
    header = trace_header(setup, CLICK_MODEL, clients.queries.size, "deterministic")
    record, truth = next(clients.rounds(setup.ranker.initial(), CLICK_MODEL)).recorded()
    recording = MemoryRecording(header)
    recording.write(record, truth)
    olsr = [attack for attack in make_attacks(["olsr"]) if attack.name == "olsr"]

    def work(n: int) -> None:
        for _ in range(n):
            infer_round(record, recording, setup.collection, olsr, setup.streams)

    contestant = Contestant("olsr", work, record.n_messages)
    rate = interleave([contestant], options.turns, options.least).rate("olsr")
    return [Figure.of(f"{shape.name}.olsr", "OLSR, lists of ten", rate, "updates/s")]
