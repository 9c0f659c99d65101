"""Rankers read from their folders, whatever their kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from affinerank.data.features import SCALINGS, FeatureMapping
from affinerank.errors import AffineRankError, DataError
from affinerank.files import PathLike, one_line
from affinerank.plain_text import read_json
from affinerank.rankers import RANKERS
from affinerank.rankers.mixed import Mixed
from affinerank.rankers.ranker import ABOUT, FORMAT, Ranker

NUMBERS = ("fill", "low", "high")


def load_ranker(folder: PathLike) -> Ranker:
    """Load what :meth:`Ranker.save` wrote; a model's files hold no code."""
    root = Path(folder)
    path = root / ABOUT
    if not path.is_file():
        raise DataError(f"{root}: no ranker's folder, as train writes it: no {ABOUT}")
    about = read_json(path)
    try:
        mapping, provenance, queries = _described(about)
        kind = RANKERS[about["kind"]]
    except AffineRankError as error:
        raise DataError(f"{path}: {error}") from None
    try:
        model = kind.load(root, about, len(mapping.names))
        if "mixed" in about:
            model = Mixed.of(model, about["mixed"], len(mapping.names))
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


def _described(about: Any) -> tuple[FeatureMapping, dict[str, Any], tuple[str, ...]]:
    """Check what each kind is described by; older versions may name less."""
    if not isinstance(about, dict):
        raise DataError(f"not a ranker saved by AffineRank: {about!r:.60}")
    found = (about.get("format"), about.get("version"))
    if found != FORMAT:
        raise DataError(
            f"expected format {FORMAT[0]!r} version {FORMAT[1]}, "
            f"got {found[0]!r:.60} version {found[1]!r:.60}"
        )
    _value(about, "kind", "text", str)
    names = _value(about, "features", "a list of names", list, str)
    if "scaling" in about:
        scaling = _value(about, "scaling", f"one of {', '.join(SCALINGS)}", str)
    else:  # older versions say whether within the list
        by_list = _value(about, "per_query_min_max", "true or false", bool)
        scaling = SCALINGS[0 if by_list else -1]
    numbers = {key: _numbers(about, key, len(names)) for key in NUMBERS}
    if scaling == "data" and None in (numbers["low"], numbers["high"]):
        raise DataError("a ranker of scaled data needs low and high")
    provenance = _value(about, "provenance", "an object", dict)
    queries = {"learnt_from": provenance.get("queries", []), **about}
    learnt = _value(queries, "learnt_from", "a list of queries", list, str, int, float)
    categories = _value({"categories": {}, **about}, "categories", "an object", dict)
    for name in categories:
        values = _value(categories, name, "a list of values", list, str)
        categories[name] = tuple(values)
        if len(set(values)) != len(values):
            raise DataError(f"the values of {name!r:.60} must differ")
    mapping = FeatureMapping(tuple(names), scaling, **numbers, categories=categories)
    return mapping, provenance, tuple(map(str, learnt))


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
