"""Click models: how users click, as rows of one table."""

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
from affinerank.tables import Table

CLICK_MODELS: Table[ClickModelKind] = Table(
    "click model",
    trust.ROW,
    position.ROW,
    cascade.ROW,
    browsing.ROW,
    dependent.ROW,
    by_query.ROW,
    by_segment.ROW,
)

__all__ = ["CLICK_MODELS", "ClickModel", "ClickModelKind", "Shown"]
