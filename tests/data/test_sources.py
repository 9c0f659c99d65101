"""Finding data by name, by folder and by file."""

import gzip
from pathlib import Path

import pytest

from affinerank.data.sources import PUBLIC_SETS, DataSource, load
from affinerank.support.errors import ConfigError, DataError


def lay_out(root: Path, *names: str) -> Path:
    """Write a tiny file under each name; its query id tells which one it is."""
    for i, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"1 qid:{i + 1} 1:0.5\n0 qid:{i + 1} 1:0.7\n".encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return root


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("mslr30k", ["Fold1/train.txt", "Fold1/vali.txt", "Fold1/test.txt"]),
        ("mslr30k", [f"MSLR-WEB30K/Fold1/{s}.txt" for s in ("train", "vali", "test")]),
        ("yahoo", [f"ltrc_yahoo/set1.{s}.txt.gz" for s in ("train", "valid", "test")]),
        ("istella-s", [f"sample/{s}.txt" for s in ("train", "vali", "test")]),
        ("mq2008", [f"MQ2008/Fold1/{s}.txt" for s in ("train", "vali", "test")]),
    ],
)  # fmt: skip
def test_a_set_is_found_where_its_archive_unpacks(
    tmp_path: Path, name: str, files: list[str]
) -> None:
    splits = load(name, root=lay_out(tmp_path, *files))
    assert splits.train.query_ids.tolist() == [1]
    assert splits.validation is not None
    assert splits.validation.query_ids.tolist() == [2]
    assert splits.test is not None
    assert splits.test.query_ids.tolist() == [3]


def test_istella_full_has_no_validation(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "full/train.txt", "full/test.txt")
    assert load("istella", root=root).validation is None


def test_parts_are_rotated_by_the_fold(tmp_path: Path) -> None:
    root = lay_out(tmp_path, *(f"S{i}.txt.gz" for i in range(1, 6)))
    assert load("mq2008", root=root).train.query_ids.tolist() == [1, 2, 3]
    third = load("mq2008", root=root, fold=3)
    assert third.train.query_ids.tolist() == [3, 4, 5]
    assert third.validation is not None
    assert third.validation.query_ids.tolist() == [1]
    assert third.test is not None
    assert third.test.query_ids.tolist() == [2]


def test_a_missing_file_is_named_with_where_the_set_comes_from(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load("yahoo", root=tmp_path)
    assert f"there is no file {tmp_path}/set1.train.txt" in str(caught.value)
    assert "Yahoo Webscope" in str(caught.value)
    root = lay_out(tmp_path, "Fold1/train.txt")
    with pytest.raises(DataError, match=r"there is no file .*/Fold1/vali\.txt"):
        load("mslr10k", root=root)


@pytest.mark.parametrize("name", sorted(PUBLIC_SETS))
def test_every_set_says_where_it_comes_from(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="root="):
        load(name)
    with pytest.raises(DataError, match="there is no file"):
        load(name, root=tmp_path)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'mslr30'.*'mslr30k'"):
        load("mslr30")
    with pytest.raises(ConfigError, match="no built-in world 'bing-like'"):
        load("bing-like:5")
    with pytest.raises(ConfigError, match="'yahoo-like:many'"):
        load("yahoo-like:many")
    with pytest.raises(ConfigError, match="there is no fold 6"):
        load("mslr30k", root=".", fold=6)


def test_a_folder_is_recognised_by_its_files(tmp_path: Path) -> None:
    root = lay_out(tmp_path, "Fold2/train.txt", "Fold2/vali.txt", "Fold2/test.txt")
    source = DataSource.parse(str(root), fold=2)
    assert source.splits == ("train", "validation", "test")
    assert source.read("test").query_ids.tolist() == [3]
    with pytest.raises(DataError, match="not the folder of a set"):
        DataSource.parse(str(root), fold=1)


def test_a_file_has_no_splits(tmp_path: Path) -> None:
    path = lay_out(tmp_path, "some.txt") / "some.txt"
    source = DataSource.parse(str(path))
    assert source.default_split("test") is None
    assert source.read(None).n_docs == 2
    with pytest.raises(ConfigError, match=r"no splits; .*'test'"):
        source.read("test")


def test_a_world_has_splits_of_the_size_asked_for() -> None:
    source = DataSource.parse("mslr-like:30", seed=1)
    assert source.synthetic
    assert source.read("train").n_queries == 30
    assert load("mslr-like:30", seed=1).train.n_queries == 30
    named = DataSource.parse("mslr-like:30@1").read("train")
    assert named.features.tobytes() == source.read("train").features.tobytes()
    with pytest.raises(ConfigError, match="'mslr-like:30@x'"):
        load("mslr-like:30@x")


@pytest.mark.parametrize("cache", [False, True])
def test_features_that_a_text_file_never_mentions_are_zero(
    cache: bool, tmp_path: Path
) -> None:
    (tmp_path / "S1.txt").write_text("1 qid:1 3:1\n0 qid:1 1:1\n")
    for i in range(2, 6):
        (tmp_path / f"S{i}.txt").write_text(f"1 qid:{i} 1:1\n0 qid:{i} 2:1\n")
    for _ in range(2):  # the second time from a cache, if there is one
        splits = load("mq2008", root=tmp_path, cache=cache)
    assert splits.train.n_features == 3
    assert splits.test is not None
    widened = splits.test.select_features(splits.train.feature_names)
    assert widened.features[:, 2].tolist() == [0, 0]


def test_what_is_nothing_is_rejected() -> None:
    with pytest.raises(DataError, match=r"'nothing\.txt'"):
        DataSource.parse("nothing.txt")
