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

ROWS = (trust, position, cascade, browsing, dependent, by_query, by_segment)
CLICK_MODELS: Table[ClickModelKind] = Table("click model", *(m.ROW for m in ROWS))

__all__ = ["CLICK_MODELS", "ClickModel", "ClickModelKind", "Shown"]
