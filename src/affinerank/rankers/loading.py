"""Load rankers of any kind from the folders that ``save`` wrote.

Every value of ``ranker.json`` is checked before it is used, and errors name the file.
A model's files hold no code, so loading a folder runs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from affinerank.data.feature_mapping import SCALINGS, FeatureMapping
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker, Blend
from affinerank.rankers.ranker import ABOUT, FORMAT, Member, Ranker, RankerKind
from affinerank.support.errors import AffineRankError, DataError
from affinerank.support.files import PathLike, one_line
from affinerank.support.text_files import read_json

Description = dict[str, Any]  # the content of ranker.json


class MemberEntry(NamedTuple):
    """The entry of a member in the ``ranker.json`` of a blend.

    Attributes:
        folder: Name of the member's folder.
        share: Weight of its scores.
        unit: Its scores are divided by this before they are weighted.
    """

    folder: str
    share: float
    unit: float


def load_ranker(folder: PathLike) -> AnyRanker:
    """Load the ranker that ``save`` wrote into a folder."""
    root = Path(folder)
    kind, description = _read_description(root)
    if kind.members is not None:
        return _load_blend(root, kind, description)
    return _load_single(root, kind, description)


def _read_description(root: Path) -> tuple[RankerKind, Description]:
    """Read ``ranker.json``; return the ranker's row of ``RANKERS`` and the content."""
    path = root / ABOUT
    if not path.is_file():
        raise DataError(
            f"{root}: no ranker's folder, as train writes it: no {ABOUT}; train one "
            "(affinerank train COUNTS --data DATA -o FOLDER)"
        )
    description = read_json(path)
    with _naming(path):
        _require_format(description)
        kind = RANKERS.saved(_value(description, "kind", "text", str))
    return kind, description


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the path of a file before the errors that its content causes."""
    try:
        yield
    except AffineRankError as error:
        raise DataError(f"{path}: {error}") from None


def _load_blend(root: Path, kind: RankerKind, description: Description) -> Blend:
    """Load a blend and, from the folders below it, its members."""
    path = root / ABOUT
    with _naming(path):
        provenance, training_queries = _origin(description)
        entries = _member_entries(description)

    members = []
    for entry in entries:
        ranker = _load_member(root / entry.folder)
        members.append(Member(entry.folder, ranker, entry.share, entry.unit))

    with _naming(path):
        return Blend(kind.name, tuple(members), provenance, training_queries)


def _load_member(root: Path) -> Ranker:
    """Load a member of a blend, which must not be a blend itself."""
    kind, description = _read_description(root)
    if kind.members is not None:
        raise DataError(f"{root / ABOUT}: a member of a blend must not be a blend")
    return _load_single(root, kind, description)


def _load_single(root: Path, kind: RankerKind, description: Description) -> Ranker:
    """Load a ranker that is not a blend: a model and its mapping of features."""
    path = root / ABOUT
    with _naming(path):
        provenance, training_queries = _origin(description)
        mapping = _mapping(description)
    try:
        model = kind.load(root, description, len(mapping.names))
    except DataError:
        raise
    except AffineRankError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # what a broken file raises depends on its library
        raise DataError(
            f"{root}: not a ranker saved by AffineRank "
            f"({type(error).__name__}: {one_line(error):.200})"
        ) from None
    return Ranker(kind.name, model, mapping, provenance, training_queries)


def _member_entries(description: Description) -> list[MemberEntry]:
    """Read the entries of a blend's members."""
    entries = []
    for row in _value(description, "members", "a list of members", list, dict):
        folder = _value(row, "folder", "a name", str)
        if not re.fullmatch(r"[\w-]+", folder):
            raise DataError(f"folder must be a plain name, got {folder!r:.60}")
        numbers = [row.get("share"), row.get("unit")]
        if any(type(number) not in (int, float) for number in numbers):
            raise DataError(f"share and unit must be numbers, got {numbers!r:.60}")
        share, unit = map(float, numbers)
        entries.append(MemberEntry(folder, share, unit))
    if not entries:
        raise DataError("a blend's file must name its members")
    return entries


def _require_format(description: Any) -> None:
    """Reject JSON that does not describe a ranker, or is of another version."""
    if not isinstance(description, dict):
        raise DataError(f"not a ranker saved by AffineRank: {description!r:.60}")
    name = description.get("format")
    version = description.get("version")
    if (name, version) != FORMAT:
        raise DataError(
            f"expected format {FORMAT[0]!r} version {FORMAT[1]}, "
            f"got {name!r:.60} version {version!r:.60}; train it again with this "
            "version (affinerank train)"
        )


def _origin(description: Description) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return how the ranker was trained, and the queries that it learnt from."""
    provenance = _value(description, "provenance", "an object", dict)
    queries = _value(
        description, "training_queries", "a list of queries", list, str, int, float
    )
    return provenance, tuple(str(query) for query in queries)


def _mapping(description: Description) -> FeatureMapping:
    """Read how raw features are mapped."""
    names = _value(description, "features", "a list of names", list, str)
    expected = f"one of {', '.join(SCALINGS)}"
    scaling = str(_value(description, "scaling", expected, str))
    fill = _numbers(description, "fill", len(names))
    low = _numbers(description, "low", len(names))
    high = _numbers(description, "high", len(names))
    if scaling == "data" and (low is None or high is None):
        raise DataError("a ranker of scaled data needs low and high")
    return FeatureMapping(
        tuple(names),
        scaling,
        fill=fill,
        low=low,
        high=high,
        categories=_categories(description),
    )


def _categories(description: Description) -> dict[str, tuple[str, ...]]:
    """Return the values of each category, in the order of their codes."""
    entries = _value(description, "categories", "an object", dict)
    categories = {}
    for name in entries:
        values = _value(entries, name, "a list of values", list, str)
        if len(set(values)) != len(values):
            raise DataError(f"the values of {name!r:.60} must differ")
        categories[name] = tuple(values)
    return categories


def _numbers(
    description: Description, key: str, n_features: int
) -> tuple[float, ...] | None:
    """Return a number for each feature; ``None`` if the file has none."""
    if description.get(key) is None:
        return None
    numbers = _value(description, key, f"{n_features} numbers", list, int, float)
    if len(numbers) != n_features:
        raise DataError(f"{key} must be {n_features} numbers, got {len(numbers)}")
    return tuple(float(number) for number in numbers)


def _value(
    description: Description,
    key: str,
    expected: str,
    value_type: type,
    *item_types: type,
) -> Any:
    """Return the value of a key, after a check of its type.

    Args:
        description: A JSON object.
        key: Key of the value.
        expected: What the value must be, in words.
        value_type: Its exact type.
        item_types: For a list: the types that its items may have.
    """
    value = description.get(key)
    is_valid = type(value) is value_type
    if is_valid and item_types:
        items: Any = value
        is_valid = all(type(item) in item_types for item in items)
    if not is_valid:
        raise DataError(f"{key} must be {expected}, got {value!r:.60}")
    return value
