"""Click models in files: JSON that names the click model and holds its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinerank.clicks.models import ClickModel, read_click_model
from affinerank.clicks.models.model import FORMAT, VERSION, save_click_model
from affinerank.support.errors import AffineRankError, DataError
from affinerank.support.files import PathLike, one_line
from affinerank.support.text_files import read_json

__all__ = ["load_click_model", "save_click_model"]


def load_click_model(path: PathLike, segment: str | None = None) -> Any:
    """Read a click model that :func:`save_click_model` wrote.

    Of a file with a model for each segment of users, the model of ``segment``, or a
    ``SegmentedModel`` of all.
    """
    try:
        about = read_json(path)
    except DataError as error:
        raise DataError(
            f"{error}; expected a click model, as estimate writes it"
        ) from None
    try:
        return _model(about, segment)
    except AffineRankError as error:
        raise DataError(f"{path}: {error}") from None
    except Exception as error:  # a row of the table may raise what it likes
        reason = f"{type(error).__name__}: {one_line(error)}"[:200]
        raise DataError(f"{path}: not a click model of AffineRank ({reason})") from None


def _model(about: Mapping[str, Any], segment: str | None) -> ClickModel:
    found = (about["format"], about["version"])
    if found != (FORMAT, VERSION):
        raise DataError(
            f"expected format {FORMAT!r} version {VERSION}, "
            f"got {found[0]!r:.60} version {found[1]!r:.60}; make the file again "
            "(affinerank estimate)"
        )
    if "segments" in about and segment is not None:
        if segment not in about["segments"]:
            raise DataError(
                f"holds a model for each of the segments "
                f"{', '.join(map(repr, about['segments']))}, not for {segment!r}"
            )
        about = about["segments"][segment]
    return read_click_model(about)
