"""Click models: how users click, as rows of one table."""

from affinerank.clicks.models import trust
from affinerank.clicks.models.model import ClickModel, ClickModelKind, Shown
from affinerank.tables import Table

CLICK_MODELS: Table[ClickModelKind] = Table("click model", trust.ROW)

__all__ = ["CLICK_MODELS", "ClickModel", "ClickModelKind", "Shown"]
