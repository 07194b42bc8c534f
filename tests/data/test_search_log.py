"""Search logs as AOL4FOLTR publishes them: users, times, clicks, parts in time, and what is refused."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foltr_audit as fa
from foltr_audit.core.records import Collection
from foltr_audit.data.search_log import number_of_clients
from foltr_audit.errors import DataError, FoltrAuditError, UsageError
from tests.fixtures.search_logs import Search, letor, metadata, searches, write_log

ROWS = searches(users=4, count=20, documents=3, features=2)
BY_ID = {row.qid: row for row in ROWS}


def load(source: str | Path, normalise: str = "none") -> Collection:
    return fa.load_data(str(source), normalise=normalise)


def searches_of(collection: Collection) -> list[list[Search]]:
    return [[BY_ID[query] for query in collection.part(name).query_ids] for name in Collection.PARTS]


# --- what is read ---------------------------------------------------------------------------------


def test_each_list_has_its_features_its_click_and_its_user(tmp_path: Path) -> None:
    data = load(write_log(tmp_path, ROWS))
    numbers: dict[str, int] = {}
    for name in Collection.PARTS:
        part = data.part(name)
        assert part.users is not None
        for place, query in enumerate(part.query_ids):
            row = BY_ID[query]
            rows = slice(int(part.offsets[place]), int(part.offsets[place + 1]))
            values = [[float(pair.split(":")[1]) for pair in text.split()] for text in row.rows]
            written = np.array(values, np.float32)
            order = [written.tolist().index(features) for features in part.features[rows].tolist()]
            assert sorted(order) == list(range(len(written)))
            clicked = [row.documents[i] == row.clicked for i in order]
            assert part.labels[rows].tolist() == clicked
            # Only the clicked document has a name: rows need not be in the order of the candidates.
            assert list(part.document_ids[rows]) == [row.clicked if one else "" for one in clicked]
            assert numbers.setdefault(row.user, int(part.users[place])) == part.users[place]
    assert sorted(numbers.values()) == [0, 1, 2, 3]
    assert (data.fold, data.synthetic, data.left_out) == (0, False, 0)


def test_parts_follow_each_other_in_time_and_users_are_numbered_by_their_searches(tmp_path: Path) -> None:
    data = load(write_log(tmp_path, ROWS))
    parts = searches_of(data)
    assert [len(part) for part in parts] == [12, 4, 4]
    times = [row.time for part in parts for row in part]
    assert times == sorted(times)
    assert all(before[-1].time < after[0].time for before, after in pairwise(parts))
    counts = Counter(row.user for row in parts[0])
    assert data.train.users is not None
    mine = np.bincount(data.train.users)
    assert sorted(mine.tolist(), reverse=True) == mine.tolist() == sorted(counts.values(), reverse=True)
    assert data.train.n_users == len(counts) == number_of_clients(data.source)


@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(6, 30), st.integers(1, 4))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_neither_order_of_the_files_matters(
    tmp_path: Path, order: random.Random, users: int, count: int, together: int
) -> None:
    start = datetime(2006, 3, 1)
    rows = searches(min(users, count), count, documents=2, features=2, seed=order.randrange(1000))
    rows = [row.at(str(start + timedelta(seconds=n // together))) for n, row in enumerate(rows)]
    folder = tmp_path / str(order.random())
    write_log(folder, rows)
    size = max(1, round(0.2 * count))
    times = [row.time for row in rows]
    cuts = times[count - 2 * size], times[count - size]
    wanted = [
        {row.qid for row in rows if row.time < cuts[0]},
        {row.qid for row in rows if cuts[0] <= row.time < cuts[1]},
        {row.qid for row in rows if cuts[1] <= row.time},
    ]
    if not all(wanted):
        with pytest.raises(DataError, match="cannot be split"):
            load(folder)
        return
    sorted_first = load(folder)
    mixed = list(rows)
    order.shuffle(mixed)
    (folder / "letor.txt").write_text(letor(mixed))
    shuffled = load(folder)
    order.shuffle(mixed)
    (folder / "metadata.csv").write_text(metadata(mixed))
    again = load(folder)
    for number, name in enumerate(Collection.PARTS):
        assert set(sorted_first.part(name).query_ids) == wanted[number]
    # Of the features, lists and users in their order.
    assert sorted_first.fingerprint == shuffled.fingerprint == again.fingerprint


def test_a_log_in_order_of_time_is_not_copied(tmp_path: Path) -> None:
    data = load(write_log(tmp_path, ROWS))
    owners = []
    for name in Collection.PARTS:
        owner: object = data.part(name).features
        while isinstance(owner, np.ndarray) and owner.base is not None:
            owner = owner.base
        owners.append(owner)
    assert owners[0] is owners[1] is owners[2]
    scaled = load(data.source, "zscore")
    np.testing.assert_allclose(scaled.train.features.mean(axis=0), 0, atol=1e-6)
    assert scaled.fingerprint == data.fingerprint


def test_columns_are_found_by_name_and_others_are_ignored(tmp_path: Path) -> None:
    plain = load(write_log(tmp_path / "plain", ROWS))
    lines = ["time,extra,target_doc_id,user_id,qid"]
    lines += [f'{row.time}.5,"a\nb",{row.clicked},{row.user},{row.qid}' for row in ROWS]
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "metadata.csv").write_bytes("\r\n".join([*lines, "", ""]).encode("utf-8-sig"))
    (folder / "letor.txt.gz").write_bytes(gzip.compress(letor(ROWS).replace("\n", "\r\n").encode()))
    assert load(folder).fingerprint == plain.fingerprint


def test_names_in_comments_are_those_of_the_documents(tmp_path: Path) -> None:
    rows = []
    for row in ROWS:
        pairs = zip(row.rows, row.documents, strict=True)
        rows.append(replace(row, rows=tuple(f"{text} # docid = {name}" for text, name in pairs)))
    data = load(write_log(tmp_path, rows))
    assert sorted(data.train.document_ids[:3]) == sorted(BY_ID[data.train.query_ids[0]].documents)
    rows[4] = replace(rows[4], rows=tuple(text.replace(rows[4].clicked, "other") for text in rows[4].rows))
    write_log(tmp_path, rows)
    with pytest.raises(DataError, match=r"metadata\.csv:6: clicked document '.*', but .* of 1 for 'other'"):
        load(tmp_path)


def test_lists_that_are_not_in_the_log_are_left_out(tmp_path: Path) -> None:
    everything = load(write_log(tmp_path, ROWS))
    kept = [row for row in ROWS if row.user != ROWS[0].user]
    fewer = load(write_log(tmp_path / "fewer", kept))
    (tmp_path / "metadata.csv").write_text(metadata(kept))
    found = load(tmp_path)
    assert found.left_out == len(ROWS) - len(kept) > 0 == fewer.left_out == everything.left_out
    assert found.fingerprint == fewer.fingerprint


def test_users_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    data = load(write_log(tmp_path, ROWS)).train
    assert data.users is not None
    assert replace(data, users=None).fingerprint != data.fingerprint
    assert replace(data, users=data.users + 1).fingerprint != data.fingerprint
    for users in (data.users[1:], data.users - 1):
        with pytest.raises(DataError, match="one user from 0 per query"):
            replace(data, users=users)
    assert data.select([3, 1]).users.tolist() == data.users[[3, 1]].tolist()  # type: ignore[union-attr]


# --- what is refused ------------------------------------------------------------------------------


def changed(place: int, **fields: object) -> list[Search]:
    return [replace(row, **fields) if number == place else row for number, row in enumerate(ROWS)]  # type: ignore[arg-type]


def test_files_that_do_not_join_are_refused(tmp_path: Path) -> None:
    twice, longer = changed(5, qid=ROWS[1].qid), changed(2, documents=(*ROWS[2].documents, "more"))
    write_log(tmp_path, ROWS)
    log, lists = tmp_path / "metadata.csv", tmp_path / "letor.txt"
    for rows, rest, message in (
        (twice, ROWS, rf"metadata\.csv:7: query id '{ROWS[1].qid}' is that of line 3 too"),
        (ROWS, ROWS[:-1], rf"metadata\.csv:21: query id '{ROWS[-1].qid}' has no rows in letor\.txt"),
        (ROWS, [replace(row, qid="x" + row.qid) for row in ROWS], r"letor\.txt: no rows; 20 queries are"),
        (ROWS, changed(3, clicked="nobody"), r"metadata\.csv:5: query id '.*' has 0 clicked rows in letor"),
        (ROWS, changed(3, documents=(ROWS[3].clicked,) * 3), r"csv:5: .* has 3 clicked rows in letor\.txt"),
        (longer, ROWS, r"metadata\.csv:4: 4 candidate documents, but 3 rows of query id"),
        ([row.at("2006-03-01 07:00:00") for row in ROWS], ROWS, r"20 searches at 1 times cannot be split"),
        (ROWS[:2], ROWS, r"metadata\.csv: 2 searches at 1 times cannot be split"),
    ):
        log.write_text(metadata(rows))
        lists.write_text(letor(rest))
        with pytest.raises(DataError, match=message):
            load(tmp_path)
    log.write_text(metadata(ROWS))
    lists.write_text(letor(ROWS).replace("1 qid", "2 qid", 1))
    with pytest.raises(DataError, match=r"a label of 2 in letor\.txt; expected a label of 1"):
        load(tmp_path)
    lists.write_text(letor([*ROWS, ROWS[0]]))
    with pytest.raises(DataError, match=r"letor\.txt:61: rows of query .* are split apart"):
        load(tmp_path)
    lists.write_text(letor(ROWS).replace("1:", "1:1e99 3:", 1))
    with pytest.raises(DataError, match=r"letor\.txt:1: feature 1: value '1e99.*' is"):
        load(tmp_path)


def test_a_log_has_no_folds_no_other_labels_and_each_file_once(tmp_path: Path) -> None:
    source = write_log(tmp_path, ROWS)
    with pytest.raises(UsageError, match=r"fold 1: .* is a search log, which has no folds"):
        fa.load_data(source, fold=1)
    with pytest.raises(UsageError, match=r"intents: .* is a search log, whose labels are real clicks"):
        fa.load_data(source, intents="synthetic:2")
    (tmp_path / "letor.txt.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"letor\.txt and letor\.txt\.gz; expected one of them"):
        load(source)
    for name in ("letor.txt", "letor.txt.gz"):
        (tmp_path / name).unlink()
    with pytest.raises(DataError, match=r"no training split; expected .* or metadata\.csv with letor\.txt"):
        load(source)


@given(st.integers(0, 400), st.binary(max_size=8), st.sampled_from(["metadata.csv", "letor.txt"]))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_one_line_or_harmless(tmp_path: Path, place: int, piece: bytes, name: str) -> None:
    rows = searches(users=2, count=5, documents=2, features=2)
    write_log(tmp_path, rows)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:place] + piece + whole[place + len(piece) // 2 :])
    try:
        found = load(tmp_path)
    except FoltrAuditError as error:
        assert str(error).count("\n") == 0  # noqa: PT017
    else:
        assert found.train.n_users >= 1
