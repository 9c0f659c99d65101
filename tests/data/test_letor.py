"""Reading LETOR text: everything the format allows, and every way it can be wrong."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from affinerank.data import letor
from affinerank.data.dataset import RankingDataset
from affinerank.data.letor import compact_ids, read_letor
from affinerank.support import limits
from affinerank.support.errors import AffineRankError, AffineRankWarning, DataError

TWO_QUERIES = (
    b"2 qid:10 1:0.5 3:-2\n0 qid:10 2:1e-3 # docid = G1 inc = 1\n1 qid:7 1:4\n"
)


def written(folder: Path, text: bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(text)
    return path


def read(folder: Path, text: bytes) -> RankingDataset:
    return read_letor(written(folder, text))


def same(a: RankingDataset, b: RankingDataset) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("features", "offsets", "labels", "query_ids", "doc_ids")
    )


def test_labels_queries_features_and_doc_ids_are_read(tmp_path: Path) -> None:
    data = read(tmp_path, TWO_QUERIES)
    np.testing.assert_array_equal(
        data.features,
        np.array([[0.5, 0, -2], [0, 1e-3, 0], [4, 0, 0]], dtype=np.float32),
    )
    assert data.known_labels().tolist() == [2, 0, 1]
    assert data.query_ids.tolist() == [10, 7]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.doc_ids.tolist() == ["0", "G1", "2"]


@pytest.mark.parametrize(
    "text",
    [
        TWO_QUERIES.replace(b"\n", b"\r\n"),
        TWO_QUERIES.replace(b"\n", b"\r"),
        TWO_QUERIES[:-1],
        b"\xef\xbb\xbf" + TWO_QUERIES,
        b"# head\n\n" + TWO_QUERIES.replace(b" 1", b"\t 1") + b"\n  \n# end",
        TWO_QUERIES.replace(b"1:0.5 3:-2", b"3:-2.0 1:+.5 2:0 #no id"),
        TWO_QUERIES.replace(b"0.5", b"5e-1").replace(b"# docid = G1", b"#docid=G1"),
    ],
    ids=["crlf", "cr", "no-final-newline", "bom", "blank", "order", "spelling"],
)
def test_the_same_data_written_otherwise_read_the_same(
    tmp_path: Path, text: bytes
) -> None:
    assert same(read(tmp_path, text), read(tmp_path, TWO_QUERIES))


@pytest.mark.parametrize("name", ["data.txt.gz", "data.txt.zst", "data.txt"])
def test_compression_is_recognised_whatever_the_name(tmp_path: Path, name: str) -> None:
    packed = (
        pa.compress(TWO_QUERIES, codec="zstd", asbytes=True)
        if name.endswith("zst")
        else gzip.compress(TWO_QUERIES)
    )
    path = written(tmp_path, packed, name)
    assert same(read_letor(path), read(tmp_path, TWO_QUERIES))


def test_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    half = len(b"2 qid:10 1:0.5 3:-2\n")
    packed = gzip.compress(TWO_QUERIES[:half]) + gzip.compress(TWO_QUERIES[half:])
    assert same(read_letor(written(tmp_path, packed)), read(tmp_path, TWO_QUERIES))


def test_an_empty_file_holds_no_queries(tmp_path: Path) -> None:
    for text in (b"", b"\n\n", b"# nothing\n"):
        data = read(tmp_path, text)
        assert (data.n_queries, data.n_docs, data.n_features) == (0, 0, 0)


def test_a_query_without_features_is_all_zero(tmp_path: Path) -> None:
    data = read(tmp_path, b"1 qid:1\n0 qid:1 2:3\n")
    np.testing.assert_array_equal(data.features, [[0, 0], [0, 3]])


def test_numbers_equal_pythons_to_float32(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = [
        "0", "-0", "1.", ".5", "1e5", "1E-5", "+3", "123456789012345678901234567890",
        "0.000000000000000000000000000000000001234567890123456789", "3.4e38", "1e-45",
        "1e-400", "00012.50", "0.1", "33554433", "1.17549435e-38",
        *(repr(float(x)) for x in rng.lognormal(sigma=9, size=200)),
        *(repr(float(x)) for x in rng.random(200)),
    ]  # fmt: skip
    text = "".join(f"1 qid:1 1:{number}\n" for number in numbers).encode()
    expected = np.array([float(number) for number in numbers]).astype(np.float32)
    np.testing.assert_array_equal(read(tmp_path, text).features[:, 0], expected)


def test_it_reads_what_scikit_learn_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = []
    for i in range(300):
        ids = np.sort(rng.choice(40, rng.integers(1, 40), replace=False)) + 1
        pairs = " ".join(f"{j}:{rng.normal():.6g}" for j in ids)
        lines.append(f"{rng.integers(5)} qid:{i // 7} {pairs} # docid = d{i}\n")
    path = written(tmp_path, "".join(lines).encode())
    theirs, labels, qid = load_svmlight_file(
        str(path), query_id=True, zero_based=False, n_features=40
    )
    ours = read_letor(path)
    np.testing.assert_array_equal(ours.features, theirs.toarray().astype(np.float32))
    np.testing.assert_array_equal(ours.known_labels(), labels)
    np.testing.assert_array_equal(ours.query_ids[ours.query_of_doc], qid)


def test_blocks_of_any_size_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"".join(
        b"%d qid:%d %d:%d #docid = d%d\r\n" % (i % 3, i // 4, i % 9 + 1, i, i)
        for i in range(200)
    )
    whole = read(tmp_path, text)
    for size in (1, 7, 64, 1000):
        monkeypatch.setattr(letor, "BLOCK_BYTES", size)
        assert same(read(tmp_path, text), whole)


def test_a_query_that_comes_back_is_grouped_with_a_note(tmp_path: Path) -> None:
    text = b"1 qid:a 1:1\n2 qid:b 1:2\n3 qid:a 1:3\n"
    with pytest.warns(AffineRankWarning, match="came back 1 time "):
        data = read(tmp_path, text)
    assert data.query_ids.tolist() == ["a", "b"]
    assert data.known_labels().tolist() == [1, 3, 2]
    assert data.source_rows.tolist() == [0, 2, 1]


def test_large_query_ids_and_repeated_doc_ids_are_kept(tmp_path: Path) -> None:
    text = b"1 qid:99999999999 1:1 #docid = x\n2 qid:99999999999 1:2 #docid = x\n"
    data = read(tmp_path, text)
    assert data.query_ids.tolist() == [99999999999]
    assert data.doc_ids.tolist() == ["x", "x"]


def test_ids_stay_as_written_unless_all_are_integers() -> None:
    assert compact_ids(["1", "20"]).tolist() == [1, 20]
    for ids in (["1", "x"], ["01"], ["1" * 19], [""], ["²"], ["-1"]):
        assert compact_ids(ids).tolist() == ids
    assert compact_ids([]).tolist() == []


@pytest.mark.parametrize("word", ["NULL", "nan", "NaN", "1.79769313486231E308"])
def test_missing_values_are_rejected_kept_or_filled(tmp_path: Path, word: str) -> None:
    path = written(tmp_path, f"1 qid:1 1:5\n1 qid:1 1:{word}\n".encode())
    with pytest.raises(DataError, match=r"data.txt, line 2: feature 1 "):
        read_letor(path)
    kept = read_letor(path, missing="keep").features[:, 0]
    np.testing.assert_array_equal(kept, [5, np.nan])
    replaced = read_letor(path, missing=-1.0).features[:, 0]
    np.testing.assert_array_equal(replaced, [5, -1])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"qid:1 1:1", "label, a number, first, got 'qid:1'"),
        (b"x qid:1 1:1", "expected a label, a number, first, got 'x'"),
        (b"-1 qid:1 1:1", "a label must be 0 or more, got '-1'"),
        (b"nan qid:1 1:1", "expected a label, a number, first, got 'nan'"),
        (b"1 1:1", "expected qid:... after the label, got '1:1'"),
        (b"1", "expected qid:... after the label, got ''"),
        (b"1 qid: 1:1", "the query id is empty, expected qid:NAME"),
        (b"1 qid:\xff 1:1", "the query id is not UTF-8 text"),
        (b"1 qid:1 0:1", "a feature id must be a whole number from 1, got '0:1'"),
        (b"1 qid:1 -3:1", "a feature id must be a whole number from 1, got '-3:1'"),
        (b"1 qid:1 a:1", "a feature id must be a whole number from 1, got 'a:1'"),
        (b"1 qid:1 2147483649:1", "a feature id must be at most 100000"),
        (b"1 qid:1 99999999999999999999:1", "a feature id must be at most 100000"),
        (b"1 qid:1 1", "expected feature:value, got '1'"),
        (b"1 qid:1 1:", "expected a number after the colon, got ''"),
        (b"1 qid:1 1: 2", "expected a number after the colon"),
        (b"1 qid:1 1:x", "expected a number after the colon, got 'x'"),
        (b"1 qid:1 1:1e", "expected a number after the colon, got '1e'"),
        (b"1 qid:1 1:1.2.3", "expected a number after the colon, got '1.2.3'"),
        (b"1 qid:1 1:inf", "expected a number after the colon, got 'inf'"),
        (b"1 qid:1 1:1e39", "expected a number after the colon, got '1e39'"),
        (b"1 qid:1 1:1 1:2", "a feature id stands twice in this line"),
        (b"1 qid:1 2:1 3:1 1:0 2:2", "a feature id stands twice in this line"),
        (b"1 qid:1 qid:2 1:1", "got a second query id, 'qid:2'"),
    ],
)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_a_bad_line_is_named_with_file_line_and_what_was_expected(
    tmp_path: Path, line: bytes, message: str, ending: bytes
) -> None:
    good = b"1 qid:1 1:1"
    path = written(tmp_path, ending.join([good, b"# comment", b"", line, good]))
    with pytest.raises(DataError) as caught:
        read_letor(path)
    assert str(caught.value).startswith(f"{path}, line 4: ")
    assert message in str(caught.value)


def test_the_first_bad_line_is_named_whatever_thread_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letor, "BLOCK_BYTES", 50)
    lines = [b"1 qid:1 1:1"] * 100
    lines[40] = b"1 qid:1 1:bad"
    lines[41:] = [b"worse"] * 59
    with pytest.raises(DataError, match="line 41: expected a number"):
        read(tmp_path, b"\n".join(lines))


def test_a_wider_limit_takes_larger_feature_ids(tmp_path: Path) -> None:
    path = written(tmp_path, b"1 qid:1 100001:1\n")
    assert read_letor(path, max_features=200_000).n_features == 100_001


def test_a_truncated_gzip_is_rejected(tmp_path: Path) -> None:
    packed = gzip.compress(TWO_QUERIES * 1000)
    path = written(tmp_path, packed[: len(packed) // 2], "data.txt.gz")
    with pytest.raises(DataError, match=r"data.txt.gz: could not be read to its end"):
        read_letor(path)


@pytest.mark.parametrize("end", ["crc", "size", "cut", "more"])
def test_a_damaged_end_of_gzip_is_rejected(tmp_path: Path, end: str) -> None:
    packed = gzip.compress(TWO_QUERIES)
    damaged = {
        "crc": packed[:-8] + b"abcd" + packed[-4:],
        "size": packed[:-4] + b"abcd",
        "cut": packed[:-1],
        "more": packed + b"more",
    }
    path = written(tmp_path, damaged[end], "data.txt.gz")
    with pytest.raises(DataError, match=r"data.txt.gz: could not be read to its end"):
        read_letor(path)


@pytest.mark.parametrize("end", ["cut", "more"])
def test_a_damaged_end_of_zstandard_is_rejected(tmp_path: Path, end: str) -> None:
    path = tmp_path / "data.txt.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(TWO_QUERIES)
    packed = path.read_bytes()
    path.write_bytes(packed[:-1] if end == "cut" else packed + b"more")
    with pytest.raises(DataError, match=r"data.txt.zst: could not be read to its end"):
        read_letor(path)


@pytest.mark.parametrize("size", [limits.LINE_BYTES + 1, 100 * 2**20])
def test_a_line_that_never_ends_is_rejected(tmp_path: Path, size: int) -> None:
    line = b"1 qid:1 1:1\n1 qid:1 1:1" + b" " * size + b"\n"
    path = written(tmp_path, gzip.compress(line, 1), "data.txt.gz")
    with pytest.raises(DataError, match=r"data.txt.gz, line 2: is longer than 16 MiB"):
        read_letor(path)


def test_a_query_may_have_so_many_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DOCUMENTS_PER_QUERY", 3)
    assert read(tmp_path, b"1 qid:a 1:1\n" * 3).n_docs == 3
    for block in (letor.BLOCK_BYTES, 20):
        monkeypatch.setattr(letor, "BLOCK_BYTES", block)
        with pytest.raises(DataError, match=r"query 'a' has more documents than 3"):
            read(tmp_path, b"1 qid:a 1:1\n" * 4)


def test_an_id_may_be_so_long(tmp_path: Path) -> None:
    long = b"a" * limits.ID_BYTES
    line = b"1 qid:%s 1:1 # docid = %s"
    assert read(tmp_path, line % (long, long)).n_docs == 1
    for ids, name in (((long + b"a", long), "query"), ((long, long + b"a"), "doc")):
        with pytest.raises(DataError, match=rf"line 2: a {name} id must have at most"):
            read(tmp_path, b"1 qid:1 1:1\n" + line % ids)


@pytest.mark.parametrize("room", ["DENSE_BYTES", "memory"])
def test_few_bytes_do_not_become_a_matrix_beyond_memory(
    tmp_path: Path, room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if room == "memory":
        monkeypatch.setattr(os, "sysconf", lambda _: 100_000)  # pages
        monkeypatch.setattr(letor, "BLOCK_BYTES", 2000)
    with pytest.raises(DataError, match="do not fit into memory as a dense matrix"):
        read(tmp_path, b"1 qid:1 100000:1\n" * 10_000)


def test_empty_lines_take_no_room(tmp_path: Path) -> None:
    data = read(tmp_path, b"\n" * 1_000_000 + b"0 qid:a\n" * 1000 + b"\r" * 99)
    assert data.n_docs == 1000


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds binary data"):
        read(tmp_path, b"PAR1\x00\x01\x02")


def test_a_folder_and_a_missing_file_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="folder"):
        read_letor(tmp_path)
    with pytest.raises(DataError, match="there is no such file"):
        read_letor(tmp_path / "nothing.txt")


def test_the_cache_is_used_until_the_file_changes(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_QUERIES)
    first = read_letor(path, cache=True)
    cached = tmp_path / "data.txt.cache.parquet"
    stamp = cached.stat().st_mtime_ns
    assert same(read_letor(path, cache=True), first)
    assert cached.stat().st_mtime_ns == stamp
    path.write_bytes(TWO_QUERIES.replace(b"0.5", b"0.7"))  # same size
    os.utime(path, ns=(1, 1))
    assert read_letor(path, cache=True).features[0, 0] == np.float32(0.7)
    assert cached.stat().st_mtime_ns != stamp


def test_a_cache_that_is_not_ours_is_written_anew(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_QUERIES)
    written(tmp_path, b"broken", "data.txt.cache.parquet")
    read_letor(path, cache=True)
    assert same(read_letor(path, cache=True), read_letor(path))


lines = st.lists(
    st.sampled_from(
        [b"1", b"qid:1", b"qid:2", b"1:2", b"3:4", b"3:", b":", b"#", b" ", b"\t",
         b"\n", b"\r", b"docid", b"=", b"x", b"-", b"e", b".", b"nan", b"\xff", b"\0",
         b"9" * 20]
    ),
    max_size=60,
).map(b"".join)  # fmt: skip


@pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning")
@settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.one_of(st.binary(max_size=200), lines))
@example(b"1 qid:1 1:1 #docid")
@example(b"1 qid:1 1:1 #docid =")
@example(b"\x1f\x8b")
@example(b"\x28\xb5\x2f\xfd")
def test_no_input_raises_anything_but_the_packages_errors(
    tmp_path: Path, text: bytes
) -> None:
    fault = ""
    try:
        read(tmp_path, text)
    except AffineRankError as error:
        fault = str(error)
    assert fault.startswith(str(tmp_path / "data.txt")) or not fault
    assert "\n" not in fault
