"""Ranking data by name: the built-in worlds, and public sets from a local folder.

The public sets may not be redistributed, so they are read from the folder that the
user unpacked them in, under the names that their archives give.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.letor import read_letor
from affinerank.data.read_options import (
    SPLITS,
    Missing,
    ReadOptions,
    Split,
    how_to_read,
)
from affinerank.data.synthetic import WORLDS, DrawnWorld
from affinerank.support.arrow import parquet_errors
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike
from affinerank.support.settings import hint

Files = Mapping[Split, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Where a public set's files lie once its archive is unpacked.

    Attributes:
        title: Its full name.
        origin: Where it comes from, for error messages.
        folders: Folders below the root to look in, after the root itself.
        files: The files of each split; ``{fold}`` and ``{S1}`` .. ``{S5}`` (the parts
            in the order of the fold) are filled in. Alternatives are tried in order.
    """

    title: str
    origin: str
    folders: tuple[str, ...]
    files: tuple[Files, ...]


def _three(name: str, validation: str = "vali") -> Files:
    """Return a file per split: ``name`` with the split's own word in it."""
    words = ("train", validation, "test")
    return {s: (name.replace("*", w),) for s, w in zip(SPLITS, words, strict=True)}


_FOLDS, _TEXTS = _three("Fold{fold}/*.txt"), _three("*.txt")
_SET1, _SET2 = (_three(f"set{i}.*.txt", "valid") for i in (1, 2))
_PARTS: Files = {
    "train": ("{S1}.txt", "{S2}.txt", "{S3}.txt"),
    "validation": ("{S4}.txt",),
    "test": ("{S5}.txt",),
}
_TWO: Files = {"train": ("train.txt",), "test": ("test.txt",)}
_MICROSOFT = "Microsoft Research, 'Microsoft Learning to Rank Datasets'"
_LETOR4 = "Microsoft Research, 'LETOR 4.0'"
_CHALLENGE = "Yahoo! Learning to Rank Challenge"
_YAHOO = f"Yahoo Webscope, data set C14 '{_CHALLENGE}'"
_ISTELLA = "Istella, 'Istella LETOR datasets'"
_FULL = "Istella LETOR (full; it has no validation split)"
_SETS: tuple[tuple[Any, ...], ...] = (
    ("mslr30k", "MSLR-WEB30K", _MICROSOFT, "MSLR-WEB30K MSLR-WEB30k", _FOLDS),
    ("mslr10k", "MSLR-WEB10K", _MICROSOFT, "MSLR-WEB10K MSLR-WEB10k", _FOLDS),
    ("yahoo", f"{_CHALLENGE}, set 1", _YAHOO, "ltrc_yahoo", _SET1),
    ("yahoo-set2", f"{_CHALLENGE}, set 2", _YAHOO, "ltrc_yahoo", _SET2),
    ("istella-s", "Istella-S LETOR", _ISTELLA, "istella-s-letor/sample sample", _TEXTS),
    ("istella", _FULL, _ISTELLA, "istella-letor/full full", _TWO),
    ("mq2008", "LETOR 4.0 MQ2008", _LETOR4, "MQ2008 mq2008", _FOLDS, _PARTS),
    ("mq2007", "LETOR 4.0 MQ2007", _LETOR4, "MQ2007 mq2007", _FOLDS, _PARTS),
)
PUBLIC_SETS: Mapping[str, PublicSet] = {
    name: PublicSet(title, origin, tuple(folders.split()), tuple(files))
    for name, title, origin, folders, *files in _SETS
}


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where ranking data come from: a world, a public set's folder, or a file.

    Attributes:
        name: As the user wrote it.
        splits: The splits it has; none for a single file.
        world: The built-in world; ``None`` where it is none.
        read_split: Reads one split, or the file for ``None``.
    """

    name: str
    splits: tuple[Split, ...]
    world: DrawnWorld | None
    read_split: Callable[[Split | None], RankingDataset]

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        fold: int = 1,
        seed: int = 0,
        missing: Missing = "keep",
        cache: bool = False,
        list_id: str | None = None,
        chosen: ReadOptions | None = None,
    ) -> DataSource:
        """Find a world, the folder of a public set, or a file.

        ``list_id`` names the column of a Parquet file that replaces ``query_id``. A
        world is ``yahoo-like:2000`` (training queries) or ``yahoo-like:2000@7`` (and
        its seed, instead of ``seed``). ``chosen`` says which columns are features.
        """
        path = Path(text)
        table = (chosen or list_id) is not None and _is_table(path)
        if list_id is not None and not table:
            raise ConfigError(
                f"--list-id names a column of a table, and {text} is none"
            )
        if _is_world(text):
            found = _world_source(text, seed)
        elif path.is_dir():
            found = _folder_source(path, fold, missing, cache)
        elif path.is_file():
            how = how_to_read(missing, list_id, chosen)
            found = cls(text, (), None, partial(_read_file, path, cache, how))
        else:
            raise DataError(
                f"{text!r} is neither a file, nor a folder, nor a built-in world; "
                f"worlds are {', '.join(WORLDS)}, as in {next(iter(WORLDS))}:2000"
            )
        if chosen is None or table:
            return found
        return replace(found, read_split=partial(_chosen, found, chosen))

    @property
    def synthetic(self) -> bool:
        """Whether it is a built-in world."""
        return self.world is not None

    def default_split(self, wanted: Split) -> Split | None:
        """Return the split a command uses by default; ``None`` for a file."""
        return wanted if self.splits else None

    def read(self, split: Split | None) -> RankingDataset:
        """Read one split, or all of a source that has none."""
        if split is not None and split not in self.splits:
            has = ", ".join(self.splits) or "no splits"
            raise ConfigError(f"{self.name} has {has}; there is no split {split!r}")
        return self.read_split(split)


@dataclass(frozen=True, slots=True)
class Splits:
    """The three parts of a set; ``None`` where it lacks one."""

    train: RankingDataset
    validation: RankingDataset | None
    test: RankingDataset | None


def load(
    name: str,
    *,
    root: PathLike | None = None,
    fold: int = 1,
    seed: int = 0,
    cache: bool = False,
) -> Splits:
    """Load a public set from ``root``, or a built-in world.

    Args:
        name: ``mslr30k``, ``yahoo``, ``istella``, ``mq2008`` ... (``PUBLIC_SETS``), or
            a world with its number of training queries, as in ``yahoo-like:2000``.
        root: Folder the set was unpacked in, or the set's own folder.
        fold: Which fold, for sets that have several.
        seed: Seed of a world.
        cache: Keep a Parquet copy beside each text file; read that next time.
    """
    if _is_world(name):
        source = _world_source(name, seed)
    elif (known := PUBLIC_SETS.get(name)) is None:
        near = hint(name, [*PUBLIC_SETS, *WORLDS])
        raise ConfigError(f"there is no data set {name!r}; {near}")
    elif root is None:
        raise ConfigError(
            f"{name} ({known.title}) is read from a folder: give root=, where it was "
            f"unpacked; it comes from {known.origin}"
        )
    else:
        source = _public_source(name, Path(root), fold, "error", cache)
    parts = {split: source.read(split) for split in source.splits}
    return Splits(parts["train"], parts.get("validation"), parts.get("test"))


def _is_world(text: str) -> bool:
    """Whether the text reads as a world and no file or folder has that name."""
    return bool(re.fullmatch(r"\w+-like([:@].*)?", text)) and not Path(text).exists()


def _world_source(text: str, seed: int) -> DataSource:
    world = WORLDS[re.split("[:@]", text)[0]]
    match = re.fullmatch(r"[^:@]*(?::([1-9]\d{0,8}))?(?:@(\d{1,9}))?", text)
    if match is None:
        raise ConfigError(
            f"{text!r}: expected a world with the number of its training queries and "
            f"its seed, as in {world.name}:2000@7"
        )
    number, own_seed = match.groups()
    n_queries = int(number) if number else None
    drawn = DrawnWorld(world, n_queries, int(own_seed or seed))
    return DataSource(text, SPLITS, drawn, drawn.read)


def _folder_source(path: Path, fold: int, missing: Missing, cache: bool) -> DataSource:
    """Recognise a public set by the files in its folder."""
    for name, known in PUBLIC_SETS.items():
        if any(_found(path, files["train"][0], fold) for files in known.files):
            return _public_source(name, path, fold, missing, cache)
    layouts = [_filled(s.files[0]["train"][0], fold) for s in PUBLIC_SETS.values()]
    raise DataError(
        f"{path}: not the folder of a set that is known by its files; looked for "
        f"{', '.join(dict.fromkeys(layouts))} (.gz and .zst too)"
    )


def _public_source(
    name: str, root: Path, fold: int, missing: Missing, cache: bool
) -> DataSource:
    known = PUBLIC_SETS[name]
    if known.origin == _ISTELLA and missing == "error":
        missing = "keep"  # they write missing values
    folds = 5 if "{" in known.files[0]["train"][0] else 1
    if not 1 <= fold <= folds:
        has = f"folds 1 to {folds}" if folds > 1 else "one fold"
        raise ConfigError(f"{name} has {has}, there is no fold {fold}")
    places = [(root / f, files) for f in ("", *known.folders) for files in known.files]
    has_train = (p for p in places if _found(p[0], p[1]["train"][0], fold))
    folder, files = next(has_train, places[0])

    def read(split: Split | None) -> RankingDataset:
        parts = []
        for file in files[split or "train"]:
            path = _found(folder, file, fold)
            if path is None:
                raise DataError(
                    f"{name}: there is no file {folder / _filled(file, fold)} (nor "
                    f".gz, .zst of it, nor one below {' or '.join(known.folders)}); "
                    f"{known.title} comes from {known.origin}"
                )
            parts.append(read_letor(path, missing=missing, cache=cache))
        return parts[0] if len(parts) == 1 else _joined(parts)

    return DataSource(str(root), tuple(files), None, read)


def _filled(file: str, fold: int) -> str:
    """Fill in fold and parts: fold 2 of five parts trains on S2, S3, S4."""
    parts = {f"S{i + 1}": f"S{(fold - 1 + i) % 5 + 1}" for i in range(5)}
    return file.format(fold=fold, **parts)


def _found(folder: Path, file: str, fold: int) -> Path | None:
    names = (_filled(file, fold) + suffix for suffix in ("", ".gz", ".zst"))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _joined(parts: Sequence[RankingDataset]) -> RankingDataset:
    """Put the queries of several texts after one another."""
    names = max((part.feature_names for part in parts), key=len)
    sizes = np.concatenate([part.docs_per_query for part in parts])
    data = RankingDataset.from_groups(
        np.concatenate([part.select_features(names).features for part in parts]),
        np.repeat(np.arange(len(sizes)), sizes),
        np.concatenate([part.query_ids for part in parts]),
        labels=np.concatenate([part.known_labels() for part in parts]),
        doc_ids=np.concatenate([part.doc_ids for part in parts]),
        feature_names=names,
    )
    return replace(data, absent_is_zero=all(part.absent_is_zero for part in parts))


def _chosen(
    source: DataSource, chosen: ReadOptions, split: Split | None
) -> RankingDataset:
    data = source.read_split(split)
    names = [name for name in data.feature_names if chosen(name)]
    if not names:
        raise DataError(f"{source.name}: --features and --ignore leave no feature")
    return data.select_features(names)


def _is_table(path: Path) -> bool:
    from affinerank.data.text_tables import is_table, side_of

    return is_table(path) or (path.is_file() and side_of(path) is not None)


def _read_file(
    path: Path, cache: bool, chosen: ReadOptions, split: Split | None = None
) -> RankingDataset:
    from affinerank.data import parquet
    from affinerank.data import text_tables as tables

    del split  # a file has none
    side = tables.side_of(path, chosen.own[0])
    if side is None and path.suffix == ".parquet":
        with parquet_errors(path):
            return parquet.read_open(path, chosen)
    if side is not None or tables.is_table(path):
        return tables.read_table(path, chosen, side)
    return read_letor(path, missing=chosen.missing, cache=cache)
