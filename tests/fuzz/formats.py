"""Every format that the package reads: valid files, how to spoil them, who reads them.

Files vary in all that the documentation allows, so a file that is not spoilt must be
read. A case has all files that its command needs, in a folder of its own.
"""

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz import spoil
from tests.fuzz.spoil import spoil_json, spoil_json_lines, spoil_table, spoil_text

SAMPLES = Path(__file__).parents[1] / "samples"
FEATURES = [f"f{i}" for i in range(1, 25)]
RANKER = """{"format": "affinerank-ranker", "version": 1, "kind": "linear-model",
"scaling": "list", "categories": {"kind": ["a", "b"]},
"provenance": {"trained_on": "clicks"}, "training_queries": []}"""
PLAN = """name = "small"
runs = 1
seed = 3
clicks = [500.0]
click_models = ["trust(eta=1, eps_minus_1=0.65)"]
policies = ["fixed"]
figures = []
[[data]]
name = "tiny"
source = "yahoo-like:40"
relevant_above = 2.0
[[rankers]]
name = "linear-model"
steps = 3
[[grids]]
estimators = ["production", "naive"]
click_model_from = ["true"]
"""
Files = dict[str, bytes]
Name = Callable[[str, int], Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Format:
    """A format: its files as they should be, and the commands that read them.

    ``victims`` are the files that may be spoilt, one in a case, each in its own way.
    """

    make: Callable[[Random], Files]
    victims: Mapping[str, spoil.Spoil]
    commands: tuple[str, ...]
    endings: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Case:
    """Files under ``in``, the command that reads them, and how they were spoilt."""

    files: Files
    command: str
    how: str


def case_of(form: Format, rng: Random) -> Case:
    """Make a case: one in seven is left as it should be."""
    files = form.make(rng)
    victim, ending = rng.choice(list(form.victims)), rng.choice(form.endings)
    command = rng.choice(form.commands).replace(f"in/{victim}", f"in/{victim}{ending}")
    how = rng.choice(("valid", "bytes", "bytes", "inside", *("structure",) * 3))
    data = files.pop(victim)
    if how in ("structure", "inside"):
        inside = form.victims[victim] if how == "structure" else spoil.spoil_bytes
        data = inside(rng, data)
    data = _compressed(rng, data, ending)
    files[victim + ending] = spoil.spoil_bytes(rng, data) if how == "bytes" else data
    return Case(files, command, how)


def _compressed(rng: Random, data: bytes, ending: str) -> bytes:
    """Compress; of gzip also as two members, which together are one file."""
    if ending == ".gz":
        cut = rng.choice((0, len(data) // 2))
        first = gzip.compress(data[:cut], 1) if cut else b""
        return first + gzip.compress(data[cut:])
    return pa.compress(data, "zstd", asbytes=True) if ending == ".zst" else data


@cache
def _world() -> tuple[list[Row], list[Row]]:
    """Return the documents of some queries, and a log of their impressions."""
    rng, rows = Random(7), []
    docs = [
        {"query": n // 6, "doc": n, "label": rng.choice((0, 0, 1, 3, 4))}
        for n in range(216)
    ]
    for session in range(900):
        query, turn = rng.randrange(36), rng.randrange(6) * (session % 2)
        for rank in range(1, 6):
            doc = docs[6 * query + (rank - 1 + turn) % 6]
            clicked = int(rng.random() < (0.7 if doc["label"] > 2 else 0.15) / rank)
            rows.append({**doc, "session": session, "rank": rank, "clicked": clicked})
    return docs, rows


def _named(rng: Random, *, text: bool = False) -> Name:
    """Choose how ids are written: as numbers, or as text of any kind."""
    styles: list[Name] = [
        lambda kind, n: f"{kind}{n}",
        lambda _, n: f"{n:03d}",
        lambda kind, n: f"{kind} {n} é日本\U0001f600",
        lambda kind, n: f'#{kind},"{n}"\n\t;',
        lambda _, n: f"2024-01-{n:02d}",
        lambda _, n: f"<b>'{n}'</b>",
        *([] if text else [lambda _, n: n, lambda _, n: n - 5, lambda _, n: n + 2**53]),
    ]
    return rng.choice(styles)


def _cast(rng: Random, table: pa.Table, kinds: str, *names: str) -> pa.Table:
    """Give columns some of the types that mean the same."""
    for name in names:
        at, kind = table.column_names.index(name), rng.choice(kinds.split())
        table = table.set_column(at, name, table[name].cast(kind))
    return table


def _mixed(rng: Random, rows: list[Row]) -> list[Row]:
    return rng.sample(rows, len(rows)) if rng.random() < 0.4 else rows


def _log(rng: Random, *, text: bool = False) -> list[Row]:
    """Return the rows of a log, in some order; some may be repeated."""
    name, more = _named(rng, text=text), rng.random() < 0.3
    drawn = rng.random() < 0.2
    rows = [
        {
            "session_id": name("s", row["session"]),
            "query_id": name("q", row["query"]),
            "doc_id": name("d", row["doc"]),
            **{key: row[key] for key in ("rank", "clicked")},
            **({"ranker": f"v{row['session'] % 2}", "note": "x,y"} if more else {}),
            **({"propensity": row["rank"] / 8} if drawn else {}),
        }
        for row in _world()[1][: rng.choice((5, 200, 1000))]
    ]
    return _mixed(rng, rows + rows[: rng.choice((0, 0, 0, 3))])


def _log_table(rng: Random, rows: list[Row], ranks: str) -> bytes:
    table = _cast(rng, pa.Table.from_pylist(rows), ranks, "rank")
    table = _cast(rng, table, "int8 bool uint64 int64 float", "clicked")
    whole = pa.types.is_integer(table["doc_id"].type)
    ids = "int64 string" if whole else "string large_string"
    table = _cast(rng, table, ids, "session_id", "query_id", "doc_id")
    if rng.random() < 0.2 and not whole:
        table = table.set_column(2, "doc_id", table["doc_id"].dictionary_encode())
    if rng.random() < 0.2:
        table = table.append_column("nested", pa.array([[{"a": 1}]] * len(table)))
    return spoil.written(rng, table)


def _log_parquet(rng: Random) -> Files:
    ranks = "int8 int32 uint8 int64 float64 string"
    return {"log.parquet": _log_table(rng, _log(rng), ranks)}


def _log_folder(rng: Random) -> Files:
    """Return a log in two files, of which one may lack a column."""
    rows = _log(rng)
    cut, less = len(rows) // 2, rng.random() < 0.5
    few = [{k: v for k, v in r.items() if k != "ranker"} for r in rows[cut:]]
    parts = {"a": rows[:cut], "sub/b": few if less else rows[cut:]}
    kinds = "int8 int32 int64"
    return {f"log/{n}.parquet": _log_table(rng, p, kinds) for n, p in parts.items()}


def _log_text(ending: str, page_size: int | None = None) -> Callable[[Random], Files]:
    def make(rng: Random) -> Files:
        rows, file = _log(rng, text=True), io.StringIO()
        if page_size is not None:
            paged = [(*divmod(row["rank"] - 1, page_size), row) for row in rows]
            rows = [{**row, "page": p + 1, "rank": at + 1} for p, at, row in paged]
        writer = csv.DictWriter(
            file,
            rng.sample(list(rows[0]), len(rows[0])),
            delimiter="\t" if ending == "tsv" else ",",
            quoting=rng.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL)),
            lineterminator=rng.choice(("\n", "\n", "\r\n")),
        )
        writer.writeheader()
        writer.writerows(rows)
        text = rng.choice(("", "", "\ufeff")) + file.getvalue()
        return {f"log.{ending}": rng.choice((text, text.rstrip("\r\n"))).encode()}

    return make


def _json_lines(rng: Random, rows: list[Row]) -> bytes:
    plain = rng.random() < 0.5
    return "".join(json.dumps(r, ensure_ascii=plain) + "\n" for r in rows).encode()


def _json(rng: Random, data: bytes | str) -> bytes:
    """Write JSON another way."""
    pairs = list(json.loads(data).items())
    mixed = dict(rng.sample(pairs, len(pairs)))
    return json.dumps(mixed, indent=rng.choice((None, 2))).encode()


def _counts(rng: Random, name: Name, *, context: bool = False) -> bytes:
    shown, clicks, issued = Counter[Any](), Counter[Any](), Counter[int]()
    for row in _world()[1]:
        key = row["query"], row["doc"], row["rank"]
        shown[key] += 1
        clicks[key] += row["clicked"]
        issued[row["query"]] += row["rank"] == 1
    valued, click_model = rng.random() < 0.3, rng.random() < 0.3
    rows = [
        {
            "query_id": name("q", key[0]),
            "doc_id": name("d", key[1]),
            "rank": key[2],
            "impressions": 30 * n,
            "clicks": 30 * clicks[key],
            "sessions": 30 * issued[key[0]],
            **({"context": key[1] % key[2]} if context else {}),
            **({"value": 60.0 * clicks[key]} if valued else {}),
            **({"value_squares": 120.0 * clicks[key]} if valued else {}),
            **({"user_bucket": "7"} if click_model else {}),
        }
        for key, n in shown.items()
    ]
    return _counted(rng, pa.Table.from_pylist(_mixed(rng, rows)))


def _counted(rng: Random, table: pa.Table) -> bytes:
    numbers = ("rank", "impressions", "clicks", "sessions")
    return spoil.written(rng, _cast(rng, table, "int64 int32 uint32", *numbers))


def _larger(rng: Random) -> Files:
    """Return counts that users can be estimated from."""
    return {"counts.parquet": _counted(rng, pq.read_table(SAMPLES / "counts.parquet"))}


def _features(rng: Random, name: Name) -> bytes:
    values = Random(5)
    rows = [
        {
            "query_id": name("q", doc["query"]),
            "doc_id": name("d", doc["doc"]),
            "label": doc["label"],
            **{f: values.random() + doc["label"] / 9 for f in FEATURES},
        }
        for doc in _world()[0]
    ]
    rows[3]["f3"] = rng.choice((None, 1.0))
    table = pa.Table.from_pylist(_mixed(rng, rows))
    return spoil.written(rng, _cast(rng, table, "double float", "label", "f1", "f2"))


def _ranker(kind: str, rng: Random) -> Files:
    """Return the folder of a ranker, and features that it reads."""
    about = json.loads(RANKER) | {"features": FEATURES, "fill": [0.5] * 24}
    numbers = {"constant": 0.1, "coefficients": [0.01 * i for i in range(24)]}
    files = {"ranker.json": json.dumps(about).encode()}
    files["model.json"] = json.dumps(numbers).encode()
    if kind:
        folder = (SAMPLES / f"ranker-{kind}").iterdir()
        files = {path.name: path.read_bytes() for path in folder}
    files["ranker.json"] = _json(rng, files["ranker.json"])
    table = {"features.parquet": _features(rng, _named(rng))}
    return {f"ranker/{name}": data for name, data in files.items()} | table


def _measured(rng: Random) -> Files:
    """Return counts, features, users and a ranker that fit each other."""
    name, kept = _named(rng), rng.choice(("eps", "gauge", "zeta", "browsing"))
    context = kept == "browsing" or rng.random() < 0.2
    return {
        **_ranker("", rng),
        "counts.parquet": _counts(rng, name, context=context),
        "features.parquet": _features(rng, name),
        "click-model.json": _json(
            rng, (SAMPLES / f"click-model-{kept}.json").read_bytes()
        ),
    }


def _days(rng: Random) -> Files:
    """Return a folder of counts by day, and users who fit them."""
    name, state = _named(rng), rng.getstate()
    files = {}
    for day in ("2026-01-30", "2026-01-31"):
        rng.setstate(state)  # of the same columns and types
        files[f"counts/{day}.parquet"] = _counts(rng, name)
    return files | {"click-model.json": (SAMPLES / "click-model-eps.json").read_bytes()}


def _scored(rng: Random) -> Files:
    """Return a log of a policy, and what it ranked."""
    name, score = _named(rng), Random(9)
    log = [
        {
            "session_id": row["session"],
            "query_id": name("q", row["query"]),
            "doc_id": name("d", row["doc"]),
            **{key: row[key] for key in ("rank", "clicked")},
        }
        for row in _world()[1]
    ]
    docs = [
        {
            "query_id": name("q", doc["query"]),
            "doc_id": name("d", doc["doc"]),
            "score": score.random(),
        }
        for doc in _mixed(rng, _world()[0])
    ]
    scores = _cast(rng, pa.Table.from_pylist(docs), "double float", "score")
    table = spoil.written(rng, pa.Table.from_pylist(log))
    return {"log.parquet": table, "scores.parquet": spoil.written(rng, scores)}


def _letor(rng: Random) -> Files:
    space, end = rng.choice((" ", " ", "  ")), rng.choice(("\n", "\n", "\r\n"))
    values, lines = Random(3), []
    for doc in _world()[0]:
        pairs = [f"{i}:{values.random():.{rng.choice((1, 6))}g}" for i in range(1, 9)]
        note = rng.choice(("", "#docid = é日本", "# x"))
        line = space.join((str(doc["label"]), f"qid:{doc['query'] + 1}", *pairs, note))
        lines.append(line.rstrip() + end)
    return {"data.txt": "".join(lines).encode()}


def _items(rng: Random) -> list[Row]:
    """Return rows of a feature table: numbers, a category, truth, missing values."""
    values, rows = Random(7), []
    for doc in _world()[0]:
        row: Row = {"query_id": f"q {doc['query']}", "doc_id": f"d,{doc['doc']}"}
        row |= {"label": doc["label"], "price": round(values.random() * 9, 4)}
        row["rating"] = rng.choice((None, round(values.random(), 3)))
        row["größe"] = rng.choice((None, "XL", 'é "M"', "日本"))
        rows.append({**row, "new": rng.choice((None, True, False))})
    return rows


def _features_text(ending: str) -> Callable[[Random], Files]:
    def make(rng: Random) -> Files:
        text, rows = io.StringIO(newline=""), _items(rng)
        separator, end = "\t" if ending == "tsv" else ",", rng.choice(("\n", "\r\n"))
        writer = csv.writer(text, delimiter=separator, lineterminator=end)
        writer.writerow(rows[0])
        none = rng.choice(("", "NA"))
        writer.writerows([none if v is None else v for v in r.values()] for r in rows)
        return {f"features.{ending}": text.getvalue().encode()}

    return make


def _with_sizes(side: str) -> Callable[[Random], Files]:
    """Return data without queries, in one of three forms, and their sizes beside."""

    def make(rng: Random) -> Files:
        docs, values = _world()[0], Random(3)
        first, form = rng.choice((0, 1)), rng.choice((" ", ",", "\t"))
        lines = []
        for doc in docs:
            own = [f"{values.random():.3g}" for _ in range(5)]
            if form == " ":
                own = [f"{i}:{value}" for i, value in enumerate(own, start=first)]
            lines.append(form.join((str(doc["label"]), *own)))
        sizes = Counter(doc["query"] for doc in docs).values()
        beside = "".join(f"{size}\n" for size in sizes)
        files = {"data.txt": "\n".join(lines) + "\n", f"data.txt.{side}": beside}
        return {name: text.encode() for name, text in files.items()}

    return make


def _plan(rng: Random) -> Files:
    text = rng.choice(("", "# a comment\n")) + PLAN
    run = {
        f"run/{path.name}": path.read_bytes() for path in (SAMPLES / "run").iterdir()
    }
    return run | {"plan.toml": text.replace(" = ", rng.choice((" = ", "="))).encode()}


def _pages() -> list[list[Row]]:
    rows = _world()[1][:200]
    return [rows[start : start + 5] for start in range(0, 200, 5)]


def _ubi(rng: Random) -> Files:
    name, wrap = _named(rng), rng.random() < 0.3
    queries: list[Row] = []
    events: list[Row] = [{"action_name": "view", "query_id": "e0"}]
    for page in _pages():
        search = {"query_id": f"e{page[0]['session']}"}
        shown = {"query_response_hit_ids": [name("d", row["doc"]) for row in page]}
        text = {"user_query": str(name("q", page[0]["query"]))}
        who = {"timestamp": "2026-01-31T10:00:00Z", "client_id": "c"}
        queries.append({**search, **text, **shown, **who})
        for row in page:
            if row["clicked"]:
                about = {"object": {"object_id": name("d", row["doc"])}}
                click = {"action_name": "click", "event_attributes": about}
                events.append({**search, **click, "x": [1]})
    return {
        "queries.jsonl": _json_lines(
            rng, [{"_source": q} if wrap else q for q in queries]
        ),
        "events.jsonl": _json_lines(rng, events),
    }


def _tiangong(rng: Random) -> Files:
    tail = rng.choice(("", "\tmore"))
    lines = [
        f"s{page[0]['session'] % 7}\té{page[0]['query']}\t{[r['doc'] for r in page]}\t"
        f"{[1] * len(page)}\t{[r['clicked'] for r in page]}{tail}\n"
        for page in _pages()
    ]
    return {"pages.txt": "".join(lines).encode()}


def _log_format(
    make: Callable[[Random], Files], ending: str, how: spoil.Spoil
) -> Format:
    count = f"count in/log.{ending} -o out/counts.parquet"
    others = (
        *(f"{count} --bad-rows drop", f"{count} --context last-click"),
        f"audit in/log.{ending} -o out/a.html",
    )
    endings = ("",) if ending == "parquet" else ("", "", ".gz", ".zst")
    return Format(make, {f"log.{ending}": how}, (*(count,) * 8, *others), endings)


def _ranker_format(kind: str, file: str, how: spoil.Spoil, *commands: str) -> Format:
    victims = {"ranker/ranker.json": spoil_json, f"ranker/{file}": how}
    return Format(lambda rng: _ranker(kind, rng), victims, (EVALUATE, ONNX, *commands))


DEBIAS = (
    "debias in/counts.parquet --click-model in/click-model.json -o out/labels.parquet"
)
TRAIN = (
    "train in/counts.parquet --data in/features.parquet --click-model "
    "in/click-model.json "
    "--ranker linear-model --set steps=3 --tuning none -o out/model"
)
ESTIMATE = "estimate in/counts.parquet -o out/click-model.json"
AUDIT = "audit in/counts.parquet -o out/audit.html"
SIMULATE = (
    "simulate yahoo-like:40 --click-model in/click-model.json --sessions 9 "
    "--log out/l.parquet"
)
EVALUATE = "evaluate in/ranker --data in/features.parquet"
BY_CLICKS = (
    f"{EVALUATE} --counts in/counts.parquet --click-model in/click-model.json "
    "--replicates 2"
)
ONNX = "export in/ranker --to onnx -o out/model.onnx"
REPORT, REPRODUCE = (
    "report in/run -o out/r.html",
    "reproduce in/plan.toml --out out/run",
)
CONVERT, DESCRIBE = "data convert in/{} out/data.parquet", "data describe in/{}"
UBI = "import ubi --queries in/queries.jsonl --events in/events.jsonl -o out/l.parquet"
TIANGONG = "import tiangong in/pages.txt -o out/log.parquet"

FORMATS = {
    "log-parquet": _log_format(_log_parquet, "parquet", spoil_table),
    "log-folder": Format(
        _log_folder,
        dict.fromkeys(("log/a.parquet", "log/sub/b.parquet"), spoil_table),
        ("count in/log -o out/counts.parquet",),
    ),
    "log-into": Format(
        _log_parquet,
        {"log.parquet": spoil_table},
        ("count in/log.parquet --into out/counts --day 2026-01-31",),
    ),
    "scores": Format(
        _scored,
        {"scores.parquet": spoil_table},
        (
            "count in/log.parquet -o out/counts.parquet --context none --top-k 5 "
            "--policy plackett-luce --scores in/scores.parquet",
        ),
    ),
    "log-csv": _log_format(_log_text("csv"), "csv", spoil_text),
    "log-paged": Format(
        _log_text("csv", page_size=3),
        {"log.csv": spoil_text},
        ("count in/log.csv --page page --page-size 3 -o out/counts.parquet",),
    ),
    "log-tsv": _log_format(_log_text("tsv"), "tsv", spoil_text),
    "log-jsonl": _log_format(
        lambda rng: {"log.jsonl": _json_lines(rng, _log(rng))},
        "jsonl",
        spoil_json_lines,
    ),
    "counts": Format(
        _measured, {"counts.parquet": spoil_table}, (DEBIAS, TRAIN, BY_CLICKS)
    ),
    "counts-by-day": Format(
        _days,
        dict.fromkeys(
            ("counts/2026-01-30.parquet", "counts/2026-01-31.parquet"), spoil_table
        ),
        ("debias in/counts --click-model in/click-model.json -o out/labels.parquet",),
    ),
    "counts-larger": Format(
        _larger, {"counts.parquet": spoil_table}, (ESTIMATE, AUDIT)
    ),
    "features": Format(
        _measured,
        {"features.parquet": spoil_table},
        (*(c.format("features.parquet") for c in (CONVERT, DESCRIBE)), EVALUATE, TRAIN),
    ),
    "features-csv": Format(
        _features_text("csv"),
        {"features.csv": spoil_text},
        tuple(c.format("features.csv") for c in (CONVERT, CONVERT, DESCRIBE)),
        ("", ".gz"),
    ),
    "features-tsv": Format(
        _features_text("tsv"),
        {"features.tsv": spoil_text},
        (CONVERT.format("features.tsv"),),
        ("", ".zst"),
    ),
    "features-jsonl": Format(
        lambda rng: {"features.jsonl": _json_lines(rng, _items(rng))},
        {"features.jsonl": spoil_json_lines},
        tuple(c.format("features.jsonl") for c in (CONVERT, CONVERT, DESCRIBE)),
        ("", ".gz"),
    ),
    **{
        f"sizes-{side}": Format(
            _with_sizes(side),
            {"data.txt": spoil_text, f"data.txt.{side}": spoil_text},
            (CONVERT.format("data.txt"),),
        )
        for side in ("query", "group")
    },
    "letor": Format(
        _letor,
        {"data.txt": spoil_text},
        tuple(c.format("data.txt") for c in (CONVERT, CONVERT, DESCRIBE)),
        ("", ".gz", ".zst"),
    ),
    "users": Format(
        _measured,
        {"click-model.json": spoil_json},
        (DEBIAS, f"{DEBIAS} --estimator affine", TRAIN, BY_CLICKS, SIMULATE),
    ),
    "ranker-lightgbm": _ranker_format(
        *("lightgbm", "model.txt", spoil_text),
        *(EVALUATE, "export in/ranker --to lightgbm -o out/model.txt"),
    ),
    "ranker-mlp": _ranker_format("mlp", "model.safetensors", spoil.spoil_safetensors),
    "ranker-linear": _ranker_format("", "model.json", spoil_json),
    "ranker-xgboost": _ranker_format(
        *("xgboost", "model.json", spoil_json),
        *(EVALUATE, "export in/ranker --to opensearch-raw -o out/model.json"),
    ),
    "plan": Format(_plan, {"plan.toml": spoil.spoil_toml}, (REPRODUCE,)),
    "plan-of-run": Format(_plan, {"run/plan.toml": spoil.spoil_toml}, (REPORT,)),
    "results": Format(_plan, {"run/results.parquet": spoil_table}, (REPORT,)),
    "ubi": Format(
        _ubi,
        {"queries.jsonl": spoil_json_lines, "events.jsonl": spoil_json_lines},
        (UBI,),
    ),
    "tiangong": Format(_tiangong, {"pages.txt": spoil_text}, (TIANGONG,)),
}
