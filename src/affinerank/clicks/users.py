"""User models in files: JSON that names the click model and holds its parameters."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from affinerank.clicks.models import CLICK_MODELS, ClickModel
from affinerank.clicks.models.model import FORMAT, VERSION, save_users
from affinerank.defaults import CLICK_MODEL
from affinerank.errors import AffineRankError, DataError
from affinerank.files import existing_file

__all__ = ["load_users", "save_users"]


def load_users(path: str | os.PathLike[str], segment: str | None = None) -> Any:
    """Read a user model that :func:`save_users` wrote.

    Of a file with a model for each segment of users, the model of ``segment``.
    """
    source = existing_file(path)
    try:
        return _model(json.loads(source.read_text()), segment)
    except AffineRankError as error:
        raise DataError(f"{source}: {error}") from None
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise DataError(
            f"{source}: not a user model written by AffineRank ({reason})"
        ) from None


def _model(about: Mapping[str, Any], segment: str | None) -> ClickModel:
    found = (about["format"], about["version"])
    if found != (FORMAT, VERSION):
        raise DataError(
            f"expected format {FORMAT!r} version {VERSION}, "
            f"got {found[0]!r} version {found[1]!r}"
        )
    if "segments" in about:
        if segment not in about["segments"]:
            raise DataError(
                f"holds a model for each of the segments "
                f"{', '.join(map(repr, about['segments']))}; expected one for all"
            )
        about = about["segments"][segment]
    return CLICK_MODELS[about.get("model", CLICK_MODEL)].read(about)
