"""Groups of clients that take one local step together: who they are, what they ask, their random numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import Bools, Floats, Ints, inlined
from .philox import fill_columns


class StepStreamKeys(NamedTuple):
    """Names of the random numbers: of lists, and of clicks."""

    round: int
    show: int
    click: int
    key: np.uint64


class GroupMemory(NamedTuple):
    """Memory for one step of each client of a group.

    Attributes:
        members: their numbers in the cohort, (rows,).
        queries: what they ask, -1 for nothing, (rows,).
        begins, firsts: where the documents of their queries begin, and the grades of these, (rows,).
        alike: a row before with the same query and the same model, else -1, (rows,).
        common: zeros, the row of a model that all share, (rows,).
        columns, blocks: clients and first blocks of the random numbers, a column for each step, (columns,).
        show, click: random numbers of lists and clicks, (k, columns) and (2k, columns).
        shown, grades, clicks: their lists, the grades of these and the clicks, (rows, k).
        coefficients, pairs: of their gradients, and how many pairs make them, (rows, k) and (rows,).
        documents, amounts: of one client, those that change its model and their coefficients, (k + 1,).
        gradient: of one client, (1, P).
    """

    members: Ints
    queries: Ints
    begins: Ints
    firsts: Ints
    alike: Ints
    common: Ints
    columns: Ints
    blocks: Ints
    show: Floats
    click: Floats
    shown: Ints
    grades: Ints
    clicks: Bools
    coefficients: Floats
    pairs: Ints
    documents: Ints
    amounts: Floats
    gradient: Floats


def empty_memory(rows: int, columns: int, k: int, parameters: int) -> GroupMemory:
    """Memory for groups of so many rows, and so many columns of random numbers."""
    return GroupMemory(
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.zeros(rows, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty(columns, dtype=np.int64),
        np.empty((k, columns + 8)),  # drawing reads eight at a time
        np.empty((2 * k, columns)),
        np.empty((rows, k), dtype=np.int64),
        np.empty((rows, k), dtype=np.int64),
        np.empty((rows, k), dtype=np.bool_),
        np.empty((rows, k)),
        np.empty(rows, dtype=np.int64),
        np.empty(k + 1, dtype=np.int64),
        np.empty(k + 1),
        np.empty((1, parameters)),
    )


@inlined
def prepare_group(
    offsets: Ints,
    queries: Ints,
    lifts: Ints,
    order: Ints,
    begin: int,
    rows: int,
    step: int,
    memory: GroupMemory,
) -> None:
    """Clients order[begin : begin + rows] and what they ask in a step."""
    for row in range(rows):
        client = order[begin + row]
        query = queries[client, step]
        memory.members[row], memory.queries[row] = client, query
        memory.begins[row] = offsets[max(query, 0)]
        memory.firsts[row] = lifts[client, step] + memory.begins[row]
        # Before the first step all models are the same.
        same = step == 0 and row > 0 and query == memory.queries[row - 1]
        memory.alike[row] = row - 1 if same else -1


@inlined
def draw_numbers(
    stream: StepStreamKeys, clients: Ints, memory: GroupMemory, rows: int, step: int, ahead: int
) -> None:
    """Random numbers of a group for the steps from `step` on, `ahead` of them."""
    k, columns = memory.show.shape[0], rows * ahead
    for column in range(columns):
        memory.columns[column] = clients[memory.members[column % rows]]
        memory.blocks[column] = (step + column // rows) * k // 2
    show, click, round_, key = memory.show, memory.click, stream.round, stream.key
    fill_columns(show, k, memory.blocks, memory.columns, columns, round_, stream.show, key)
    for column in range(columns):
        memory.blocks[column] *= 2
    fill_columns(click, 2 * k, memory.blocks, memory.columns, columns, round_, stream.click, key)
