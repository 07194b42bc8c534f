"""`foltr-audit data`: describe ranking data, and write synthetic data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from foltr_audit.cli.common import CommonOptions, field_flags, folds_of, takes
from foltr_audit.cli.options import argument, option, switch
from foltr_audit.cli.output import note, print_json, show_table
from foltr_audit.cli.pages import HelpGroup, new_app, page
from foltr_audit.errors import UsageError
from foltr_audit.report.table import Column, make_table

QRELS = "intents"  # folder of the qrels for each intent, next to the synthetic data
_MOST_FILES = 8  # whose names are shown
_RANGE = {"min", "mean", "max"}

app = new_app(cls=HelpGroup, help="Describe ranking data, and write synthetic data.")


@app.command("info", cls=page("data info"))
@takes("fold", "data.missing", "data.intents", "json")
def info(
    common: CommonOptions,
    path: str = argument("Folder or file with LETOR data or a search log, or synthetic:NAME[:QUERIES]."),
    seed: int = option("Seed of the split of data without parts of their own.", 1, least=0),
) -> None:
    """Show queries, documents, labels and the fingerprint of a data set."""
    given = {"source": path, "normalise": "none", **common.of_table("data")}
    facts = [_facts({**given, "fold": fold}, seed) for fold in folds_of(common.fold, path) or (0,)]
    if common.json:
        print_json("data-info/1", **({"folds": facts} if common.fold == "all" else facts[0]))
        return
    for described in facts:
        _print(described, seed)


def _facts(wanted: dict[str, Any], seed: int) -> dict[str, Any]:
    from foltr_audit.core.settings.experiment import Spec
    from foltr_audit.data.load import load_collection, source_files
    from foltr_audit.data.sources import describe

    data = Spec.parse({"data": wanted}, "", field_flags()).data
    files = source_files(data)
    described: dict[str, Any] = describe(load_collection(data, seed, cache=False))  # the files, not the cache
    if files is not None:
        folder = Path(data.source) if Path(data.source).is_dir() else Path(data.source).parent
        described["files"] = [str(file.relative_to(folder)) for file in files.files]
        described["split_off"] = list(files.split)
    return described


def _print(described: dict[str, Any], seed: int) -> None:
    parts, origin = described["parts"], described["intents_from"]
    kind = "synthetic data" if described["synthetic"] else "data"
    source = described["source"] if origin is None else f"{described['source']} with intents {origin}"
    fold = f", fold {described['fold']}" if described["fold"] else ""

    def of(name: str) -> Column:
        return Column(name, lambda row: _cell(parts[name][row]), "words")

    def words(row: str) -> str:
        return row.replace("_", " ").replace("10 documents", "10 or more documents")

    columns = [Column("", words, "words"), *map(of, parts)]
    rows = next(iter(parts.values()))
    title = f"{kind} {source}{fold}, {described['features']} features"
    if left_out := described.get("queries_left_out"):
        title += f", {left_out} queries that are not in the log left out"
    caption = "\n".join(_origin(described, seed))
    show_table(make_table(title, columns, rows, caption=caption))


def _origin(described: dict[str, Any], seed: int) -> Iterator[str]:
    """Which files were read and joined, what was split off, and the fingerprint."""
    from foltr_audit.data.sources import folds_of

    if files := described.get("files"):
        shown = files if len(files) <= _MOST_FILES else [*files[:2], "...", files[-1]]
        yield f"read from {', '.join(shown)}"
    if split := described.get("split_off"):
        yield f"{' and '.join(split)} split off by query with seed {seed}"
        if folds := folds_of(described["source"]):
            yield f"the pieces also have folds {folds[0]} to {folds[-1]}: --fold K or --fold all"
    if count := described.get("missing_values"):
        yield f"missing values: {count:,}, which become {described['missing_become']} (--missing)"
    if "rows_read" in described:
        rows = f"{described['rows_joined']:,} of {described['rows_read']:,} rows"
        queries = f"{described['queries_joined']:,} of {described['queries_read']:,} queries"
        yield f"{rows} and {queries} joined with {described['intents_from']} by document id"
    yield f"fingerprint {described['fingerprint']}"


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        if set(value) == _RANGE:
            return f"{value['min']} to {value['max']}, mean {_cell(value['mean'])}"
        return ", ".join(f"{key}: {_cell(inner)}" for key, inner in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@app.command("synth", cls=page("data synth"))
def synth(
    out: Path = option("Folder for train.txt, vali.txt and test.txt.", ..., metavar="DIR"),
    like: str = option(
        "The data set to imitate: mq2007, mslr-web10k, clueweb-intents or istella-s.", "mq2007"
    ),
    queries: int | None = option("Number of queries. Default: as in the real set; 1500 for istella-s."),
    seed: int = option("Seed of the generator.", 1, least=0),
    overwrite: bool = switch("--overwrite", "Replace the files in --out."),
) -> None:
    """Write synthetic data with the statistics of a real set as LETOR text, and several intents as qrels."""
    from foltr_audit.data.intents import write_qrels
    from foltr_audit.data.letor import write_letor
    from foltr_audit.data.synthetic import synthesise
    from foltr_audit.experiments.runs.folder import report_write_errors

    if out.exists() and not out.is_dir():
        raise UsageError(f"--out: {out} is a file; expected a folder")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise UsageError(f"--out: {out} is not empty; give --overwrite to replace the files in it")
    collection = synthesise(like, queries=queries, seed=seed)
    with report_write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for name in collection.PARTS:
            part = collection.part(name)
            write_letor(part, out / f"{name}.txt")
            size = f"{part.n_queries} queries, {part.n_documents} documents"
            note(f"wrote synthetic {out / f'{name}.txt'}: {size}")
        if collection.n_intents > 1:
            write_qrels({name: collection.part(name) for name in collection.PARTS}, out / QRELS)
            note(f"wrote synthetic {out / QRELS}: a file for each of {collection.n_intents} intents")
