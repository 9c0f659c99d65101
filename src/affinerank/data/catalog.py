"""Ranking data by name: the built-in worlds, and public sets from a local folder.

The public sets may not be redistributed, so they are read from where the user unpacked
them, under the names that their archives give.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from affinerank.data.dataset import RankingDataset, concatenate
from affinerank.data.letor import read_letor
from affinerank.data.reading import SPLITS, Missing, Split
from affinerank.errors import ConfigError, DataError

_SUFFIXES = ("", ".gz", ".zst")


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Where a public set's files lie once its archive is unpacked.

    Attributes:
        title: Its full name.
        origin: Where it comes from, for the reader of an error.
        folders: Folders to look in, below the root; the root itself comes first.
        files: The files of each split; ``{fold}`` and ``{S1}`` .. ``{S5}`` (the parts
            in the order of the fold) are filled in. Alternatives are tried in order.
        folds: Number of folds.
        missing: How it writes missing values, as :func:`read_letor` takes it.
    """

    title: str
    origin: str
    folders: tuple[str, ...]
    files: tuple[Mapping[Split, tuple[str, ...]], ...]
    folds: int = 1
    missing: Missing = "error"


def _split_files(train: str, validation: str, test: str) -> Mapping[Split, tuple[str]]:
    return {"train": (train,), "validation": (validation,), "test": (test,)}


_FOLDS = _split_files(
    "Fold{fold}/train.txt", "Fold{fold}/vali.txt", "Fold{fold}/test.txt"
)
_PARTS: Mapping[Split, tuple[str, ...]] = {
    "train": ("{S1}.txt", "{S2}.txt", "{S3}.txt"),
    "validation": ("{S4}.txt",),
    "test": ("{S5}.txt",),
}
_MICROSOFT = "Microsoft Research, 'Microsoft Learning to Rank Datasets'"
_LETOR4 = "Microsoft Research, 'LETOR 4.0'"
_YAHOO = "Yahoo Webscope, data set C14 'Yahoo! Learning to Rank Challenge'"
_ISTELLA = "Istella, 'Istella LETOR datasets'"

PUBLIC_SETS: Mapping[str, PublicSet] = MappingProxyType(
    {
        "mslr30k": PublicSet(
            "MSLR-WEB30K", _MICROSOFT, ("MSLR-WEB30K", "MSLR-WEB30k"), (_FOLDS,), 5
        ),
        "mslr10k": PublicSet(
            "MSLR-WEB10K", _MICROSOFT, ("MSLR-WEB10K", "MSLR-WEB10k"), (_FOLDS,), 5
        ),
        "yahoo": PublicSet(
            "Yahoo! Learning to Rank Challenge, set 1",
            _YAHOO,
            ("ltrc_yahoo",),
            (_split_files("set1.train.txt", "set1.valid.txt", "set1.test.txt"),),
        ),
        "yahoo-set2": PublicSet(
            "Yahoo! Learning to Rank Challenge, set 2",
            _YAHOO,
            ("ltrc_yahoo",),
            (_split_files("set2.train.txt", "set2.valid.txt", "set2.test.txt"),),
        ),
        "istella-s": PublicSet(
            "Istella-S LETOR",
            _ISTELLA,
            ("istella-s-letor/sample", "sample"),
            (_split_files("train.txt", "vali.txt", "test.txt"),),
            missing="keep",
        ),
        "istella": PublicSet(
            "Istella LETOR (full; it has no validation split)",
            _ISTELLA,
            ("istella-letor/full", "full"),
            ({"train": ("train.txt",), "test": ("test.txt",)},),
            missing="keep",
        ),
        "mq2008": PublicSet(
            "LETOR 4.0 MQ2008", _LETOR4, ("MQ2008", "mq2008"), (_FOLDS, _PARTS), 5
        ),
        "mq2007": PublicSet(
            "LETOR 4.0 MQ2007", _LETOR4, ("MQ2007", "mq2007"), (_FOLDS, _PARTS), 5
        ),
    }
)


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where ranking data come from: a world, a public set's folder, or a file.

    Attributes:
        name: As the user wrote it.
        splits: The splits it has; none for a single file.
        synthetic: Whether it is a built-in world.
        read_split: Reads one split, or the file for ``None``.
    """

    name: str
    splits: tuple[Split, ...]
    synthetic: bool
    read_split: Callable[[Split | None], RankingDataset]

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        fold: int = 1,
        seed: int = 0,
        missing: Missing = "error",
        cache: bool = False,
        list_id: str | None = None,
    ) -> DataSource:
        """Understand a world, the folder of a public set, or a file.

        ``list_id`` names the column of a Parquet file that stands for ``query_id``. A
        world is ``yahoo-like:2000`` (training queries) or ``yahoo-like:2000@7`` (and
        its seed, in place of ``seed``).
        """
        path = Path(text)
        if list_id is not None and path.suffix != ".parquet":
            raise ConfigError(
                f"--list-id names a column of a Parquet file, and {text} is none"
            )
        if _is_world(text):
            return _world_source(text, seed)
        if path.is_dir():
            return _folder_source(path, fold, missing, cache)
        if path.is_file():
            return cls(
                name=text,
                splits=(),
                synthetic=False,
                read_split=lambda _: _read_file(path, missing, cache, list_id),
            )
        raise DataError(
            f"{text!r} is neither a file, nor a folder, nor a built-in world; "
            f"worlds are {', '.join(_worlds())}, as in {_worlds()[0]}:2000"
        )

    def default_split(self, wanted: Split) -> Split | None:
        """Return the split a command uses unless told; none for a file."""
        return wanted if self.splits else None

    def read(self, split: Split | None) -> RankingDataset:
        """Read one split, or the whole of a source that has none."""
        if split is not None and split not in self.splits:
            has = f"has {', '.join(self.splits)}" if self.splits else "has no splits"
            raise ConfigError(f"{self.name} {has}; there is no split {split!r}")
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
    root: str | os.PathLike[str] | None = None,
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
    elif name not in PUBLIC_SETS:
        known = [*PUBLIC_SETS, *_worlds()]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise ConfigError(f"there is no data set {name!r}; {hint}")
    elif root is None:
        found = PUBLIC_SETS[name]
        raise ConfigError(
            f"{name} ({found.title}) is read from a folder: give root=, where it was "
            f"unpacked; it comes from {found.origin}"
        )
    else:
        source = _public_source(
            name, Path(root), fold, PUBLIC_SETS[name].missing, cache
        )
    parts = {split: source.read(split) for split in source.splits}
    return Splits(parts["train"], parts.get("validation"), parts.get("test"))


def _worlds() -> list[str]:
    from affinerank.data.synthetic import WORLDS

    return list(WORLDS)


def _is_world(text: str) -> bool:
    """Whether the text reads as a world and no file or folder has that name."""
    return bool(re.fullmatch(r"\w+-like([:@].*)?", text)) and not Path(text).exists()


def _world_source(text: str, seed: int) -> DataSource:
    from affinerank.data.synthetic import WORLDS, generate_world

    sized, at, own_seed = text.partition("@")
    name, colon, size = sized.partition(":")
    if name not in WORLDS:
        raise ConfigError(
            f"there is no built-in world {name!r}; known: {', '.join(WORLDS)}"
        )
    if colon and not re.fullmatch(r"[1-9]\d{0,8}", size):
        raise ConfigError(
            f"{text!r}: after the colon goes the number of training queries, "
            f"as in {name}:2000"
        )
    if at and not re.fullmatch(r"\d{1,9}", own_seed):
        raise ConfigError(
            f"{text!r}: after the @ goes the seed of the world, as in {name}:2000@7"
        )
    n_queries = int(size) if colon else None

    def read(split: Split | None) -> RankingDataset:
        return generate_world(
            name,
            n_queries=n_queries,
            split=split or "train",
            seed=int(own_seed) if at else seed,
        )

    return DataSource(name=text, splits=SPLITS, synthetic=True, read_split=read)


def _folder_source(path: Path, fold: int, missing: Missing, cache: bool) -> DataSource:
    """Recognise a public set by the files in its folder."""
    for name, known in PUBLIC_SETS.items():
        if any(_found(path, files["train"][0], fold) for files in known.files):
            wanted = known.missing if missing == "error" else missing
            return _public_source(name, path, fold, wanted, cache)
    layouts = [s.files[0]["train"][0].format(fold=fold) for s in PUBLIC_SETS.values()]
    raise DataError(
        f"{path}: not the folder of a set that is known by its files; looked for "
        f"{', '.join(dict.fromkeys(layouts))} (.gz and .zst too)"
    )


def _public_source(
    name: str, root: Path, fold: int, missing: Missing, cache: bool
) -> DataSource:
    known = PUBLIC_SETS[name]
    if not 1 <= fold <= known.folds:
        has = f"folds 1 to {known.folds}" if known.folds > 1 else "one fold"
        raise ConfigError(f"{name} has {has}, there is no fold {fold}")
    folder, files = _located(name, root, fold)

    def read(split: Split | None) -> RankingDataset:
        paths = []
        for file in files[split or "train"]:
            path = _found(folder, file, fold)
            if path is None:
                raise _not_found(name, folder / _filled(file, fold))
            paths.append(path)
        return concatenate([_read_file(p, missing, cache) for p in paths])

    return DataSource(
        name=str(root), splits=tuple(files), synthetic=False, read_split=read
    )


def _located(
    name: str, root: Path, fold: int
) -> tuple[Path, Mapping[Split, tuple[str, ...]]]:
    """Find the folder below ``root`` that holds the set's training file."""
    known = PUBLIC_SETS[name]
    for folder in (root, *(root / below for below in known.folders)):
        for files in known.files:
            if _found(folder, files["train"][0], fold):
                return folder, files
    raise _not_found(name, root / known.files[0]["train"][0].format(fold=fold))


def _not_found(name: str, path: Path) -> DataError:
    known = PUBLIC_SETS[name]
    return DataError(
        f"{name}: there is no file {path} (nor .gz, .zst of it, nor one below "
        f"{' or '.join(known.folders)}); {known.title} comes from {known.origin}"
    )


def _filled(file: str, fold: int) -> str:
    """Fill in fold and parts: fold 2 of five parts trains on S2, S3, S4."""
    parts = {f"S{i + 1}": f"S{(fold - 1 + i) % 5 + 1}" for i in range(5)}
    return file.format(fold=fold, **parts)


def _found(folder: Path, file: str, fold: int) -> Path | None:
    name = _filled(file, fold)
    for suffix in _SUFFIXES:
        if (folder / (name + suffix)).is_file():
            return folder / (name + suffix)
    return None


def _read_file(
    path: Path, missing: Missing, cache: bool, list_id: str | None = None
) -> RankingDataset:
    if path.suffix == ".parquet":
        from affinerank.data.parquet import read_parquet

        return read_parquet(path, missing=missing, list_id=list_id or "query_id")
    return read_letor(path, missing=missing, cache=cache)
