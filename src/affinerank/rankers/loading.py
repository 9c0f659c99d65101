"""Rankers read from their folders, whatever their kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from affinerank.data.features import SCALINGS, FeatureMapping
from affinerank.errors import AffineRankError, DataError
from affinerank.files import PathLike, one_line
from affinerank.plain_text import read_json
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker, Blend
from affinerank.rankers.ranker import ABOUT, FORMAT, Member, Ranker

NUMBERS = ("fill", "low", "high")


def load_ranker(folder: PathLike) -> AnyRanker:
    """Load what ``save`` wrote; a model's files hold no code."""
    return _load(Path(folder), blends=True)


def _load(root: Path, *, blends: bool) -> AnyRanker:
    """Load a ranker; a blend's members are no blends."""
    path = root / ABOUT
    if not path.is_file():
        raise DataError(
            f"{root}: no ranker's folder, as train writes it: no {ABOUT}; train one "
            "(affinerank train COUNTS --data DATA -o FOLDER)"
        )
    about = read_json(path)
    try:
        _require_format(about)
        kind = RANKERS[_value(about, "kind", "text", str)]
        provenance, queries = _origin(about)
        members = _members(about) if blends and kind.members else None
        mapping = None if members else _mapping(about)
    except AffineRankError as error:
        raise DataError(f"{path}: {error}") from None
    try:
        if members:
            loaded = tuple(
                Member(name, _loaded_member(root / name), share, unit)
                for name, share, unit in members
            )
            return _blend_of(path, kind.name, loaded, provenance, queries)
        assert mapping is not None  # noqa: S101
        model = kind.load(root, about, len(mapping.names))
        return Ranker(kind.name, model, mapping, provenance, queries)
    except DataError:
        raise
    except AffineRankError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # what a broken file raises depends on its library
        raise DataError(
            f"{root}: not a ranker saved by AffineRank "
            f"({type(error).__name__}: {one_line(error):.200})"
        ) from None


def _blend_of(path: Path, *parts: Any) -> Blend:
    """Put a blend together; say which file is to blame if it cannot score."""
    try:
        return Blend(*parts)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _loaded_member(root: Path) -> Ranker:
    member = _load(root, blends=False)
    assert isinstance(member, Ranker)  # noqa: S101
    return member


def _members(about: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return folder, share and unit of each member of a blend."""
    found = []
    for row in _value(about, "members", "a list of members", list, dict):
        name = _value(row, "folder", "a name", str)
        if not re.fullmatch(r"[\w-]+", name):
            raise DataError(f"folder must be a plain name, got {name!r:.60}")
        numbers = [row.get("share"), row.get("unit")]
        if any(type(number) not in (int, float) for number in numbers):
            raise DataError(f"share and unit must be numbers, got {numbers!r:.60}")
        found.append((name, float(numbers[0]), float(numbers[1])))
    return found


def _require_format(about: Any) -> None:
    """Reject what is no ranker's description."""
    if not isinstance(about, dict):
        raise DataError(f"not a ranker saved by AffineRank: {about!r:.60}")
    found = (about.get("format"), about.get("version"))
    if found != FORMAT:
        raise DataError(
            f"expected format {FORMAT[0]!r} version {FORMAT[1]}, "
            f"got {found[0]!r:.60} version {found[1]!r:.60}"
        )


def _origin(about: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return how the ranker was trained, and the queries that it learnt from."""
    provenance = _value(about, "provenance", "an object", dict)
    queries = {"learnt_from": provenance.get("queries", []), **about}
    learnt = _value(queries, "learnt_from", "a list of queries", list, str, int, float)
    return provenance, tuple(map(str, learnt))


def _mapping(about: dict[str, Any]) -> FeatureMapping:
    """Check what is done to features; older versions may name less."""
    names = _value(about, "features", "a list of names", list, str)
    if "scaling" in about:
        scaling = _value(about, "scaling", f"one of {', '.join(SCALINGS)}", str)
    else:  # older versions say whether within the list
        by_list = _value(about, "per_query_min_max", "true or false", bool)
        scaling = SCALINGS[0 if by_list else -1]
    numbers = {key: _numbers(about, key, len(names)) for key in NUMBERS}
    if scaling == "data" and None in (numbers["low"], numbers["high"]):
        raise DataError("a ranker of scaled data needs low and high")
    categories = _value({"categories": {}, **about}, "categories", "an object", dict)
    for name in categories:
        values = _value(categories, name, "a list of values", list, str)
        categories[name] = tuple(values)
        if len(set(values)) != len(values):
            raise DataError(f"the values of {name!r:.60} must differ")
    return FeatureMapping(tuple(names), scaling, **numbers, categories=categories)


def _numbers(about: dict[str, Any], key: str, n: int) -> tuple[float, ...] | None:
    """Return a number for each feature, if there are any."""
    if about.get(key) is None:
        return None
    found = _value(about, key, f"{n} numbers", list, int, float)
    if len(found) != n:
        raise DataError(f"{key} must be {n} numbers, got {len(found)}")
    return tuple(map(float, found))


def _value(about: dict[str, Any], key: str, words: str, kind: type, *of: type) -> Any:
    """Return what a key holds, if it is of a kind, and a list of some kinds."""
    value = about.get(key)
    parts: Any = value if of else ()
    if type(value) is not kind or not all(type(part) in of for part in parts):
        raise DataError(f"{key} must be {words}, got {value!r:.60}")
    return value
