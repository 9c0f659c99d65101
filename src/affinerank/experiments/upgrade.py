"""Plans and results of version 0.1, which knew one click model, policy and ranker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinerank.bias.mixture.method import ROWS as MIXTURES
from affinerank.clicks.models import trust
from affinerank.clicks.policies import fixed
from affinerank.estimators import ESTIMATORS
from affinerank.experiments.coordinates import canonical
from affinerank.pipeline.weighing import with_clip
from affinerank.pipeline.worlds import PRODUCTION
from affinerank.rankers import mlp
from affinerank.settings import Spec

NO_CLIP = "none"
RANKER = mlp.ROW.name
USERS = {"default": MIXTURES[0].name}  # other names are as they were


def upgraded_plan(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the keys of a parsed plan; what cannot be read stays, to be rejected."""
    new = _upgraded(raw)
    if isinstance(raw.get("network"), dict):
        new["rankers"] = [{"name": RANKER, **new.pop("network")}]
    if _are(raw.get("grids"), dict):
        new["grids"] = [_upgraded(grid) for grid in raw["grids"]]
    return new


def upgraded_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the columns of a row of results that describe its cell."""
    if "eta" not in row:
        return dict(row)
    if row["clicks"] is None:
        ranker = None if row["estimator"] == PRODUCTION else RANKER
        none = dict.fromkeys(("click_model", "policy", "users"))
        return {**row, **none, "ranker": ranker}
    setting = {name: row[name] for name in ("eta", "eps_minus_1")}
    return {
        **row,
        "click_model": canonical("click_model", _click_model(setting)),
        "policy": fixed.ROW.name,
        "estimator": canonical("estimator", _clipped(row["estimator"], row["clip"])),
        "users": USERS.get(row["users"], row["users"]),
        "ranker": RANKER,
    }


def _upgraded(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Rename the keys of a plan, or of one of its grids."""
    new = dict(raw)
    if _are(raw.get("settings"), dict):
        new["click_models"] = [_click_model(one) for one in new.pop("settings")]
    if raw.get("clicks") == "largest":
        new |= {"clicks": [], "most_clicks": True}
    if _are(raw.get("users"), str):
        new["users"] = [USERS.get(name, name) for name in raw["users"]]
    if _are(raw.get("clips"), str) and _are(raw.get("estimators"), str):
        clips = new.pop("clips")
        names = [_clipped(name, clip) for name in raw["estimators"] for clip in clips]
        new["estimators"] = list(dict.fromkeys(names))
    return new


def _are(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(part, kind) for part in value)


def _click_model(setting: Mapping[str, Any]) -> str:
    return str(Spec(trust.ROW.name, tuple(setting.items())))


def _clipped(estimator: str, clip: str) -> str:
    """Make a clipping rule an option of the estimator, if it has such an option."""
    if clip == NO_CLIP or estimator not in ESTIMATORS:
        return estimator
    return str(with_clip(estimator, clip))
