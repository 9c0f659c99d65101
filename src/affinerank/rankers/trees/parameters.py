"""Parameters of tree libraries by their own names, and features scores are monotone in.

Settings with ``PASSED`` hand these keys on: ``--set lambda_l2=1`` becomes one of their
``params``. ``OURS`` says what keys that have another name here are called.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from affinerank.support.errors import ConfigError
from affinerank.support.settings import hint, pair

MONOTONE = "monotone_constraints"
YES_NO = ("true", "false")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers that a parameter may be."""

    least: float = 0.0
    most: float = math.inf
    whole: bool = False

    def __contains__(self, text: str) -> bool:
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            return False
        return self.least <= value <= self.most and value < math.inf

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        upto = "" if self.most == math.inf else f" and at most {self.most:g}"
        return f"{kind} of at least {self.least:g}{upto}"


Rule = Range | tuple[str, ...]
ABOVE_0, SHARE = Range(), Range(1e-9, 1.0)
COUNT, DEPTH = Range(1, 2**31 - 1, whole=True), Range(-1, 10_000, whole=True)


def same_rule(names: str, rule: Rule) -> dict[str, Rule]:
    """Give one rule to several parameters, named with spaces between them."""
    return dict.fromkeys(names.split(), rule)


def renamed(text: str) -> dict[str, str]:
    """Read ``theirs=ours``, one after another."""
    return dict(map(pair, text.split()))


LIGHTGBM: Mapping[str, Rule] = {
    **same_rule("cat_l2 cat_smooth lambda_l1 lambda_l2 max_delta_step", ABOVE_0),
    **same_rule("min_gain_to_split min_sum_hessian_in_leaf", ABOVE_0),
    **same_rule("monotone_penalty path_smooth", ABOVE_0),
    **same_rule("bagging_fraction feature_fraction_bynode", SHARE),
    **same_rule("bin_construct_sample_cnt max_cat_threshold max_cat_to_onehot", COUNT),
    **same_rule("min_data_in_bin min_data_per_group num_grad_quant_bins", COUNT),
    **same_rule("bagging_freq", Range(0, 2**31 - 1, whole=True)),
    **same_rule("max_depth", DEPTH),
    **same_rule("extra_trees lambdarank_norm quant_train_renew_leaf", YES_NO),
    **same_rule("stochastic_rounding use_quantized_grad", YES_NO),
    "monotone_constraints_method": ("basic", "intermediate", "advanced"),
}
LIGHTGBM_OURS: Mapping[str, str] = renamed(
    "num_leaves=leaves num_iterations=trees n_estimators=trees max_bin=bins "
    "min_data_in_leaf=min_documents min_child_samples=min_documents "
    "feature_fraction=feature_share colsample_bytree=feature_share "
    "lambdarank_truncation_level=truncation num_threads=threads "
    "reg_alpha=lambda_l1 reg_lambda=lambda_l2 min_split_gain=min_gain_to_split "
    "min_child_weight=min_sum_hessian_in_leaf "
    "subsample=bagging_fraction subsample_freq=bagging_freq"
)


def passed(settings: Any) -> dict[str, str]:
    """Return what settings hand on, by name; reject what the library would not take."""
    found = dict(pair(text, "params") for text in settings.params)
    for name, value in found.items():
        rule = settings.PASSED.get(name)
        if rule is None and name != MONOTONE:
            near = hint(name, settings.PASSED)
            raise ConfigError(f"there is no parameter {name!r}; {near}")
        if rule is not None and value not in rule:
            right = str(rule) if isinstance(rule, Range) else " or ".join(rule)
            raise ConfigError(f"{name} must be {right}, got {value!r}")
    return found


def for_features(settings: Any, names: Sequence[str]) -> Any:
    """Turn what is monotone, by name, into a direction of each feature that is read.

    Settings without ``monotone`` stay as they are.
    """
    text = getattr(settings, "monotone", "")
    if not text:
        return settings
    signs = {"+1": 1, "1": 1, "-1": -1, "0": 0}
    given: dict[str, int] = {}
    for part in text.replace(";", ",").split(","):
        name, _, sign = (word.strip() for word in part.rpartition("="))
        if sign not in signs:
            raise ConfigError(
                f"monotone must be as in price=-1,rating=+1, got {part.strip()!r}"
            )
        if name not in names:
            raise ConfigError(
                f"monotone: {name!r} is none of the {len(names)} features that vary "
                f"within queries; {hint(name, names)}"
            )
        given[name] = signs[sign]
    each = ",".join(str(given.get(name, 0)) for name in names)
    params = (*settings.params, f"{MONOTONE}=({each})")
    return replace(settings, monotone="", params=params)


def without_monotone(settings: Any) -> Any:
    """Leave out what goes by feature: for what is learnt of others, and never served.

    Settings without ``monotone`` stay as they are.
    """
    return replace(settings, monotone="") if hasattr(settings, "monotone") else settings


def resolved(settings: Any) -> dict[str, str]:
    """Return what settings hand on, where nothing is left to be resolved by name."""
    if settings.monotone:
        raise ConfigError("monotone goes by names, and fit knows none: for_features")
    return passed(settings)
