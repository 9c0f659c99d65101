"""Files of logs: every row of them is read, or the fault is named with its place."""

import csv
import gzip
import io
import json
import os
import random
import resource
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.counts.counting import count_log, open_table
from affinerank.engines.files import layouts
from affinerank.logs.report import LogFaultsError
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.limits import ID_BYTES, LINE_BYTES, TEXT_DEPTH

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Rows = list[dict[str, Any]]
Count = Callable[..., Any]
Write = Callable[..., str]
NAMES = ["session_id", "query_id", "doc_id", "rank", "clicked"]
HEADER = ",".join(NAMES).encode() + b"\n"
TWO = b"s,q,d,1,0\ns,q,e,2,1\n"


def table_of(source: Path, **settings: Any) -> pa.Table:
    with open_table(str(source), **settings) as table:
        return table.to_pyarrow()


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def zstd(content: bytes) -> bytes:
    found = pa.BufferOutputStream()
    with pa.CompressedOutputStream(found, "zstd") as stream:
        stream.write(content)
    return bytes(found.getvalue())


# CSV


@pytest.mark.parametrize(
    "text",
    [
        HEADER + TWO,
        (HEADER + TWO).replace(b"\n", b"\r\n"),
        HEADER.replace(b"\n", b"\r\n") + TWO,
        HEADER + TWO.replace(b"0\n", b"0\r\n"),
        (HEADER + TWO).rstrip(),
        b"\xef\xbb\xbf" + HEADER + TWO,
        HEADER + TWO + b"\n\n\n",
        HEADER + TWO.replace(b"\n", b"\n\n"),
        HEADER + b'"s","q",d,"1",0\ns,q,e,2,"1"\n',
    ],
    ids=[
        "unix",
        "windows",
        "first",
        "mixed",
        "no end",
        "mark",
        "blank",
        "between",
        "quoted",
    ],
)
def test_csv_is_read_whole_however_its_lines_end(text: bytes, tmp_path: Path) -> None:
    for name, content in (
        ("log.csv", text),
        ("LOG.CSV.GZ", gzip.compress(text)),
        ("log.csv.zst", zstd(text)),
        ("log.tsv", text.replace(b",", b"\t")),
    ):
        rows = table_of(written(tmp_path / name, content)).to_pylist()
        found = sorted(tuple(row.values()) for row in rows)
        assert found == [("s", "q", "d", "1", "0"), ("s", "q", "e", "2", "1")]


def test_lines_that_begin_with_a_hash_are_rows(count: Count, tmp_path: Path) -> None:
    rows = b"".join(b"#%d,q,d,1,0\ns%d,q,d,1,1\n" % (i, i) for i in range(90))
    counts, found = count(str(written(tmp_path / "log.csv", HEADER + rows)))
    assert found.summary["rows"] == counts.impressions.sum() == 180
    path = written(tmp_path / "log.csv", b"# exported by X\n" + HEADER + rows)
    with pytest.raises(
        DataError, match=r"log.csv, line 1: .*got \['# exported by X'\]"
    ):
        count(str(path))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (TWO + b"s,q,f,3\n", "log.csv, line 4: expected 5 fields, got 4"),
        (TWO + b"s,q,f,3,1,\n", "log.csv, line 4: expected 5 fields, got 6"),
        (TWO + b's,"q,d,1,0\n' + TWO, "log.csv, line 4: unexpected end"),
        (TWO + b's,"q"x,d,1,0\n', "log.csv, line 4: .*expected after"),
        (b'"s",q,d,1\n' + TWO, "log.csv, line 2: expected 5 fields, got 4"),
        (b"s,q\xff,d,1,0\n" + TWO, "log.csv, line 2: expected UTF-8"),
        (TWO.replace(b"\n", b"\r"), "log.csv, line 2: new-line character"),
        (b"s,q\rx,d,1,0\n" + TWO, "log.csv, line 2: new-line character"),
        (b"s,q,x,1,0\r\r\n" + TWO, "log.csv, line 2: new-line character"),
        (b"x" * (LINE_BYTES + 2**21) + TWO, "log.csv, line 2: over 16777216 bytes"),
    ],
)
def test_a_broken_line_of_csv_is_named(
    rows: bytes, message: str, count: Count, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        count(str(written(tmp_path / "log.csv", HEADER + rows)))
    assert "\n" not in str(caught.value)


PIECES = ["a", "\n", '"', ",", "x,y,z,1,0\n", '"\n"', "\r\n", "é", " ", "#", '","', "'"]


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_csv_are_those_of_another_reader(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)

    def field() -> str:
        pieces = "".join(rng.choices(PIECES, k=rng.randint(1, 6)))
        return pieces if rng.random() < 0.5 else str(rng.randint(0, 99))

    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=rng.choice(["\n", "\r\n"]))
    number = rng.choice([1, 30, 3000])
    rows = [[field() for _ in NAMES] for _ in range(number)]
    writer.writerows([NAMES, *rows])
    path = written(tmp_path / "log.csv", text.getvalue().encode())
    with path.open(newline="") as file:
        expected = Counter(map(tuple, list(csv.reader(file))[1:]))
    found = table_of(path).to_pylist()
    assert Counter(tuple(row.values()) for row in found) == expected


def test_quoted_lines_are_not_torn_where_a_large_file_is_cut(tmp_path: Path) -> None:
    """DuckDB reads 32 MB at a time; a part of it could begin within quotes."""
    row = 's,"{}","' + "x,y,z,1,0\n" * 40 + '",1,0\n'
    text = "".join(row.format(i) for i in range(90_000))
    path = written(tmp_path / "log.csv", HEADER + text.encode())
    with open_table(str(path)) as table:
        assert table.count().to_pyarrow().as_py() == 90_000
        assert table.query_id.nunique().to_pyarrow().as_py() == 90_000


# Columns


@pytest.mark.parametrize("other", ["clicked", "Clicked"])
def test_two_columns_of_one_name_are_refused(
    other: str, good: Rows, count: Count, tmp_path: Path
) -> None:
    header = ",".join([*NAMES, other]).encode()
    path = written(tmp_path / "log.csv", header + b"\ns,q,d,1,0,1\n")
    with pytest.raises(DataError, match=rf"log.csv: .*'clicked', '{other}'"):
        count(str(path))
    table = pa.Table.from_pylist(good)
    twice = [*table.columns, table["clicked"]]
    double = pa.Table.from_arrays(twice, names=[*table.column_names, other])
    with pytest.raises(DataError, match=rf"log.parquet: .*'clicked', '{other}'"):
        count(double)
    line = json.dumps(good[0])[:-1] + f', "{other}": 1}}'
    path = written(tmp_path / "log.jsonl", line.encode())
    with pytest.raises(DataError, match=rf"log.jsonl: .*'clicked', '{other}'"):
        count(str(path))


def test_columns_that_come_late_in_json_lines_are_found(
    count: Count, tmp_path: Path
) -> None:
    row = {"query_id": "q", "doc_id": "d", "rank": 1, "clicked": 0}
    lines = [json.dumps({"session_id": i, **row}) for i in range(25_000)]
    lines.append(json.dumps({"session_id": "last", **row, "ranker": "B"}))
    path = written(tmp_path / "log.jsonl", "\n".join(lines).encode())
    counts, _ = count(str(path))
    assert counts.select("ranker", "B").impressions.sum() == 1
    assert counts.select("ranker", "").impressions.sum() == 25_000


def test_columns_that_only_some_files_have_are_found(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write(good[:3], "logs/a.parquet")
    write([{"ranker": "B", **row} for row in good[3:]], "logs/b.parquet")
    written(tmp_path / "a.csv", HEADER + TWO)
    written(tmp_path / "b.csv", b"ranker," + HEADER + b"B,t,q,d,1,0\n")
    for source, b, none in (("logs", 4, 3), ("?.csv", 1, 2)):
        counts, found = count(str(tmp_path / source))
        assert counts.select("ranker", "B").impressions.sum() == b
        assert counts.select("ranker", "").impressions.sum() == none
        assert "ranker is null or empty" in found.report.findings[0].what


def test_names_of_folders_are_columns_only_if_that_is_said(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    plain, _ = count(good)
    ours, _ = count(write(good, "clicked=0/ranker=A/log.parquet"))
    assert ours.equals(plain)
    path = write(good, "ranker=007/log.parquet")
    assert table_of(Path(path), hive=True)["ranker"].unique().to_pylist() == ["007"]
    with pytest.raises(DataError, match=r"'clicked', 'clicked'"):
        table_of(tmp_path / "clicked=0", hive=True)
    folder = tmp_path / "rank=9"
    written(folder / "log.csv", HEADER + TWO)
    written(folder / "log.jsonl", json.dumps(good[0]).encode())
    assert set(table_of(folder / "log.csv")["rank"].to_pylist()) == {"1", "2"}
    assert table_of(folder / "log.jsonl")["rank"].to_pylist() == ["1"]
    with pytest.raises(ConfigError, match="--hive"):
        table_of(folder / "log.csv", hive=True)


def test_ids_of_mixed_type_are_kept_apart_as_text(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write([{**row, "query_id": 0} for row in good[:3]], "logs/a.parquet")
    write([{**row, "query_id": "000"} for row in good[3:]], "logs/b.parquet")
    with pytest.warns(AffineRankWarning, match="query_id holds int64 and string"):
        counts, _ = count(str(tmp_path / "logs"))
    assert set(counts.table["query_id"].to_pylist()) == {"0", "000"}
    write([{**row, "query_id": 0.5} for row in good[3:]], "logs/b.parquet")
    with pytest.raises(DataError, match=r"query_id .*holds float64"):
        count(str(tmp_path / "logs"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([True] * 7), "doc_id .*holds boolean"),
        (pa.array([1] * 7).cast(pa.decimal128(21, 1)), "doc_id .*holds decimal"),
    ],
)
def test_ids_are_no_truths_or_fractions(
    values: pa.Array, message: str, good: Rows, count: Count
) -> None:
    table = pa.Table.from_pylist(good).drop_columns("doc_id")
    with pytest.raises(DataError, match=message):
        count(table.append_column("doc_id", values))


def test_an_id_of_ten_megabytes_is_a_fault(good: Rows, count: Count) -> None:
    long = [{**good[0], "doc_id": "x" * 10**7}, *good[1:]]
    with pytest.raises(LogFaultsError, match=f"doc_id is longer than {ID_BYTES}") as e:
        count(long)
    assert len(str(e.value.report)) < 2000
    _, found = count(long, bad_rows="drop")
    assert found.summary["dropped"] == {"sessions": 1, "rows": 3}


# Folders


def test_what_is_left_out_of_a_folder_is_said(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write(good[:3], "logs/a.parquet")
    write(good[3:], "logs/sub/x.PARQUET")
    with warnings.catch_warnings():
        warnings.simplefilter("error", AffineRankWarning)
        _, found = count(str(tmp_path / "logs"))
    assert found.summary["rows"] == 7
    write(good[3:], "logs/.hidden.parquet")
    write(good[3:], "logs/_temporary/0/y.parquet")
    written(tmp_path / "logs/sub/notes.txt", b"")
    said = r"logs: 3 files left out, as .hidden.parquet, notes.txt, y.parquet"
    with pytest.warns(AffineRankWarning, match=said):
        _, found = count(str(tmp_path / "logs"))
    assert found.summary["rows"] == 7
    said = r"1 files left out, as .hidden.parquet"
    with pytest.warns(AffineRankWarning, match=said):
        _, found = count(str(tmp_path / "logs/*.parquet"))
    assert found.summary["rows"] == 3


def test_a_file_with_several_names_is_read_once(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write(good, "logs/a.parquet")
    (tmp_path / "logs/b.parquet").symlink_to("a.parquet")
    (tmp_path / "logs/again").symlink_to(".", target_is_directory=True)
    with pytest.warns(AffineRankWarning, match="left out, as again"):
        _, found = count(str(tmp_path / "logs"))
    assert found.summary["rows"] == 7
    _, found = count(str(tmp_path / "logs/*.parquet"))
    assert found.summary["rows"] == 7


def test_a_pattern_may_find_folders(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write(good[:3], "1.parquet/part-0.parquet")
    write(good[3:], "2.parquet/part-0.parquet")
    _, found = count(str(tmp_path / "?.parquet"))
    assert found.summary["rows"] == 7


def test_a_name_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")
    Path(path).write_bytes(HEADER + TWO)
    with pytest.raises(DataError, match=r"udcff.csv': expected a name in UTF-8"):
        layouts(path)


# Damage


def packed(kind: str) -> tuple[str, bytes]:
    rows = b"".join(b"s%d,q%d,d,1,0\n" % (i, i * i % 997) for i in range(5000))
    text = HEADER + rows
    if kind.startswith("json"):
        names = [line.split(b",") for line in rows.splitlines()]
        found = [dict(zip(NAMES, map(bytes.decode, n), strict=True)) for n in names]
        text = "".join(json.dumps(row) + "\n" for row in found).encode()
    name = "log.jsonl" if kind.startswith("json") else "log.csv"
    if kind.endswith("gz"):
        return f"{name}.gz", gzip.compress(text)
    return f"{name}.zst", zstd(text)


@pytest.mark.parametrize("kind", ["csv gz", "csv zst", "json gz", "json zst"])
def test_damaged_compression_is_an_error(
    kind: str, count: Count, tmp_path: Path
) -> None:
    name, content = packed(kind)
    path = tmp_path / name
    _, found = count(str(written(path, content)))
    assert found.summary["rows"] == 5000
    damaged = [content[:-1], content[:-9], content[: len(content) // 2], content[:20]]
    damaged += [content + b"garbage!!", content + content[:12]]
    if kind.endswith("gz"):  # the checksum, and the length
        damaged += [content[:-8] + bytes(4) + content[-4:], content[:-4] + bytes(4)]
    for bad in damaged:
        written(path, bad)
        with pytest.raises(DataError, match=f"{name}: could not be read to its end"):
            count(str(path))


def test_a_bomb_is_refused_in_little_memory(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.csv.gz", "wb", compresslevel=9) as file:
        file.write(HEADER)
        for _ in range(200):
            file.write(bytes(2**20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="line 2: over 16777216 bytes"):
        layouts(str(tmp_path / "bomb.csv.gz"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < 100  # MiB


# JSON Lines


def nested(depth: int) -> str:
    return '{"session_id":' + "[" * depth + "]" * depth + "}\n"


@pytest.mark.parametrize("depth", [TEXT_DEPTH, 1000, 10**5, 10**6])
def test_json_nested_too_deep_is_one_sentence(
    depth: int, good: Rows, count: Count, tmp_path: Path
) -> None:
    lines = json.dumps(good[0]) + "\n" + nested(depth)
    path = written(tmp_path / "log.jsonl", lines.encode())
    with pytest.raises(
        DataError, match=f"log.jsonl, line 2: .*{TEXT_DEPTH} levels at most"
    ):
        count(str(path))


def test_brackets_in_texts_and_wide_lists_are_not_deep(
    good: Rows, count: Count, tmp_path: Path
) -> None:
    brackets = "[" * 1000 + '\\"' + "{" * 1000
    others = {"note": brackets, "wide": [[i] for i in range(1000)]}
    lines = "".join(json.dumps({**others, **row}) + "\n" for row in good)
    path = written(tmp_path / "log.jsonl", lines.encode())
    _, found = count(str(path))
    assert found.summary["rows"] == 7
    # A text that never ends takes no longer.
    endless = '{"note": "' + '\\"[' * 10**6
    path = written(tmp_path / "log.jsonl", endless.encode())
    with pytest.raises(DataError, match=r"log.jsonl: the engine"):
        count(str(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"session_id": 1', "in line 3: unexpected end"),
        ('{"session_id": 1} {"session_id": 2}', "in line 3: unexpected content"),
        ('{"session_id": "\\ud800"}', "in line 3: .*surrogate"),
        ("[1]", "in line 3: Expected OBJECT"),
        ("x" * (LINE_BYTES + 2**21), "log.jsonl, line 3: over 16777216 bytes"),
    ],
)
def test_a_broken_line_of_json_is_named(
    line: str, message: str, good: Rows, count: Count, tmp_path: Path
) -> None:
    lines = [json.dumps(row) for row in good]
    text = "\n".join([*lines[:2], line, *lines[2:]])
    with pytest.raises(DataError, match=message):
        count(str(written(tmp_path / "log.jsonl", text.encode())))


# Other files and engines


def test_files_of_too_many_layouts_are_refused(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    for i in range(101):
        write([{**good[0], f"x{i}": 1}], f"logs/{i}.parquet")
    with pytest.raises(DataError, match="101 sets of columns"):
        count(str(tmp_path / "logs"))


@pytest.mark.usefixtures("spark")
def test_spark_reads_what_duckdb_reads_and_refuses_the_same(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write(good[:3], "logs/clicked=0/a [1] {x}.parquet")
    write([{"ranker": "B", **row} for row in good[3:]], "logs/sub/x.PARQUET")
    here, _ = count(str(tmp_path / "logs"))
    there, _ = count(str(tmp_path / "logs"), engine="spark")
    assert here.equals(there)
    for name, text in (
        ("few.csv", HEADER + TWO + b"s,q,f,3\n"),
        ("many.csv", HEADER + TWO + b"s,q,f,3,1,1\n"),
        ("bad.jsonl", json.dumps(good[0]).encode() + b'\n{"session_id": 1'),
        ("deep.jsonl", nested(10**5).encode()),
        ("cut.csv.gz", gzip.compress(HEADER + TWO)[:-3]),
        ("_hidden.csv", HEADER + TWO),
    ):
        path = written(tmp_path / name, text)
        with pytest.raises(DataError):
            count(str(path), engine="spark")


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    n = 400_000
    ids = pa.array([f"{i:040d}" for i in range(n)])
    ones = pa.array([1] * n)
    columns = dict(zip(NAMES, [ids, ids, ids, ones, ones], strict=True))
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    with open_table(str(tmp_path / "log.parquet"), memory="100MB") as table:
        table.get_backend().raw_sql("SET max_temp_directory_size = '1MB'")
        with pytest.raises(DataError, match=r"disk is full.*TMPDIR"):
            count_log(table, tmp_path / "c.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


SPILLING = """
import os, signal, sys
from affinerank.counts.counting import open_table
with open_table(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_is_removed_by_the_next(
    good: Rows, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, spill = write(good), tmp_path / "spill"
    spill.mkdir()
    killed = [sys.executable, "-c", SPILLING, source]
    subprocess.run(killed, env={**os.environ, "TMPDIR": str(spill)}, check=False)
    assert len(list(spill.iterdir())) == 1
    (spill / "affinerank-of-somebody").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    with open_table(source):
        assert len(list(spill.iterdir())) == 2
    assert [path.name for path in spill.iterdir()] == ["affinerank-of-somebody"]


def test_a_column_that_nobody_asks_for_may_be_long(tmp_path: Path) -> None:
    text = HEADER[:-1] + b",note\ns,q,d,1,0," + b"x" * 200_000 + b"\n"
    path = written(tmp_path / "log.csv", text)
    assert table_of(path).num_rows == 1
