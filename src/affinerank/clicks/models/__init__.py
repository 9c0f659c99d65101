"""Click models: how users click, as rows of one table."""

from collections.abc import Mapping
from typing import Any

from affinerank.clicks.models import (
    browsing,
    by_query,
    by_segment,
    cascade,
    dependent,
    position,
    trust,
)
from affinerank.clicks.models.model import ClickModel, ClickModelKind, Shown
from affinerank.support.errors import DataError
from affinerank.support.registry import Registry

ROWS = (trust, position, cascade, browsing, dependent, by_query, by_segment)
CLICK_MODELS: Registry[ClickModelKind] = Registry("click model", *(m.ROW for m in ROWS))

__all__ = [
    "CLICK_MODELS",
    "ClickModel",
    "ClickModelKind",
    "Shown",
    "read_click_model",
]


def read_click_model(about: Mapping[str, Any]) -> ClickModel:
    """Build the click model that ``about`` names, from what its ``to_dict`` gives."""
    if "model" not in about:
        raise DataError(
            f"the key 'model' is missing, found {list(about)!r:.60}; expected one of "
            f"{CLICK_MODELS.choices}; make the file again (affinerank estimate)"
        )
    return CLICK_MODELS.saved(about["model"]).read(about)
