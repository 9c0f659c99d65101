"""Estimated alpha and beta by rank, beside the truth, as they are and modulo gauge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.gauge import gauge_error
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import DataError
from affinerank.experiments.plan import Setting
from affinerank.experiments.results import Result
from affinerank.experiments.series import setting_of
from affinerank.pipeline import RANKS_SHOWN

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What one way of estimating found in one setting, at the most clicks it had.

    Attributes:
        data: Name of the data set.
        setting: How users click.
        users: Way of estimating.
        clicks: Training clicks.
        alpha: ``[runs, ranks]`` estimated slope.
        beta: ``[runs, ranks]`` estimated intercept.
        gauge_alpha: ``[runs, ranks]`` slope in the gauge of the truth.
        gauge_beta: ``[runs, ranks]`` intercept there.
        truth: The users who clicked.
    """

    data: str
    setting: Setting
    users: str
    clicks: float
    alpha: Floats
    beta: Floats
    gauge_alpha: Floats
    gauge_beta: Floats
    truth: UserModel


def estimates_of(results: Sequence[Result]) -> list[Estimate]:
    """Every estimate of users in some results, at the most clicks of its setting."""
    places: dict[tuple[str, Setting, str], list[Result]] = {}
    for result in results:
        setting = setting_of(result.cell)
        if result.alpha and setting is not None:
            place = (result.cell.data, setting, result.cell.users)
            places.setdefault(place, []).append(result)
    found = []
    for (data, setting, users), runs in places.items():
        most = max(run.cell.clicks or 0.0 for run in runs)
        own = [run for run in runs if run.cell.clicks == most]
        found.append(_estimate(data, setting, users, most, own))
    return found


def _estimate(
    data: str, setting: Setting, users: str, clicks: float, runs: Sequence[Result]
) -> Estimate:
    truth = UserModel.paper(
        eta=setting.eta, eps_minus_1=setting.eps_minus_1, depth=RANKS_SHOWN
    )
    models = [_model(run) for run in runs]
    # Every rank counts the same here: what is drawn is by rank.
    moved = [_moved(model, truth) for model in models]
    return Estimate(
        data,
        setting,
        users,
        clicks,
        np.stack([model.alpha for model in models]),
        np.stack([model.beta for model in models]),
        np.stack([alpha for alpha, _ in moved]),
        np.stack([beta for _, beta in moved]),
        truth,
    )


def _model(result: Result) -> UserModel:
    """The estimate at the ranks that are drawn; the last known one stays the same."""
    rank = np.minimum(np.arange(RANKS_SHOWN), len(result.alpha) - 1)
    alpha, beta = np.array(result.alpha)[rank], np.array(result.beta)[rank]
    return UserModel(alpha=alpha, beta=beta, identified="gauge")


def _moved(model: UserModel, truth: UserModel) -> tuple[Floats, Floats]:
    """The estimate in the gauge of the truth; NaN where it has none."""
    try:
        aligned = gauge_error(model, truth, np.ones(RANKS_SHOWN))
    except DataError:  # an alpha of 0
        return np.full(RANKS_SHOWN, np.nan), np.full(RANKS_SHOWN, np.nan)
    return aligned.alpha, aligned.beta
