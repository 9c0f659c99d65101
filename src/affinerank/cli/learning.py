"""Rankers trained on counted clicks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from affinerank.cli import display
from affinerank.cli.options import (
    Counts,
    DataOptions,
    Days,
    Output,
    Positive,
    Result,
    Seed,
    Set,
    load,
    require_writable,
)
from affinerank.defaults import ESTIMATOR, RANKER, RECIPE, RELEVANT_ABOVE
from affinerank.errors import ConfigError
from affinerank.progress import Progress

AUTO = "auto"


def train(
    counts: Counts,
    *,
    data: str,
    output: Output,
    users: Path | None = None,
    save_users: Path | None = None,
    estimator: list[str] | None = None,
    clip: str | None = None,
    strict: bool = False,
    ranker: str = RANKER,
    budget: str = "5m",
    recipe: str = RECIPE,
    scaling: str | None = None,
    categories: str | None = None,
    settings: Set = None,
    patience: Positive = None,
    validation: Path | None = None,
    checkpoint: Path | None = None,
    importance: bool = False,
    safe: str | None = None,
    production: str | None = None,
    relevant_above: float = RELEVANT_ABOVE,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result | None:
    """Train networks or trees on corrected clicks.

    With --set, settings of the ranker, as in --set epochs=12; of trees also LightGBM's
    or XGBoost's own (lambda_l2=1), and monotone scores (monotone=price=-1,rating=+1).

    Example: affinerank train counts.parquet --data yahoo-like:500
    --users users.json --ranker lightgbm -o model

    Options:
        output: New folder for the ranker.
        save_users: Write the user model that was estimated.
        estimator: {ESTIMATORS} ({ESTIMATOR} by default); several are trained together,
            one folder each; auto: {ESTIMATOR}, unless {CORRECTION} or {BASELINE} does
            better on held-out queries, by two judges.
        strict: Reject ranks the user model lacks.
        ranker: {RANKERS}.
        budget: Time that auto should take at most, as in 90s, 5m or 1h.
        recipe: {RECIPE}: learning rate and number of epochs (or trees) by held-out
            queries, then trained on all; {PAPER}: as the settings say.
        scaling: Of features: list (within the query), data (by numbers that the ranker
            keeps) or none; left out, list for networks, none for trees.
        categories: Columns of text: native, for trees (the default there), or one-hot:
            a feature for each value, as brand=nike, which search engines can serve.
        patience: Stop early: after so many epochs (or trees) without gain on held-out
            clicks, those of --validation, or the holdout of COUNTS.
        validation: Counts used for early stopping; data: the validation split.
        checkpoint: Resume from this file if interrupted.
        importance: Permute each feature within the lists of held-out queries, and say
            what DCG that costs; the ranker keeps it.
        safe: Learn within limits ({SAFEGUARDS}), and leave production only as far as
            held-out clicks allow; needs --production. For networks and trees.
        production: Feature that holds production's score, for --safe.
    """
    from affinerank.pipeline import (
        ChoiceSettings,
        given_rates,
        held_out,
        ranker_settings,
    )
    from affinerank.pipeline.choice import parse_budget
    from affinerank.pipeline.weighing import require_users_possible

    names = list(dict.fromkeys(estimator or [ESTIMATOR]))
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    require_writable(
        output, checkpoint, save_users, reads=[counts, data, users, validation]
    )
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    more = len(names) > 1 or any((patience, checkpoint, clip, importance))
    _require_alone(AUTO in names, more, safe, production)
    seconds = parse_budget(budget)
    pairs = [*(settings or []), *([f"patience={patience}"] if patience else [])]
    how, known = ranker_settings(ranker, pairs, seed), load(users)
    needed = require_users_possible([ESTIMATOR] if AUTO in names else names, known)
    if save_users is not None and (known is not None or not needed):
        raise ConfigError("--save-users is for users that are estimated here")
    clicks, read = days.load(counts), of.read(data)
    if needed:
        known = load(users, clicks, seed)
    same: dict[str, Any] = {"recipe": recipe, "safe": safe}
    same |= {"scaling": scaling, "categories": categories}
    compared = ChoiceSettings(ranker, how, seconds, seed, **same)
    same |= {"relevant_above": relevant_above, "rates": given_rates(ranker, pairs)}
    same |= {"clip": clip, "checkpoint": checkpoint, "importance": importance}
    if validation is not None:
        held = of.read(data, "validation", named=False)
        same["validation"] = (Days().load(validation), held)
    elif patience is not None:
        same["validation"] = (held_out(clicks), read)
    given = {"strict": strict, "progress": progress}
    on = (clicks, read, known)
    trained, choice = _trained(names, on, compared, production, given, same)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ["RANK"] != "0":
        return None  # torchrun started several processes: the first writes
    _report_users(trained, save_users)
    about = trained.save(output)
    if choice is not None:
        about["choice"] = choice.to_dict()
    if importance:
        about["importance"] = {
            name: one.provenance.get("importance")
            for (name, _), one in trained.rankers.items()
        }
    return about, display.trained


def _trained(
    names: list[str],
    on: tuple[Any, Any, Any],
    how: Any,
    production: str | None,
    given: dict[str, Any],
    more: dict[str, Any],
) -> tuple[Any, Any]:
    """Compare estimators, learn safely, or train by each; ``more`` is for the last."""
    from affinerank.pipeline import train, train_chosen, train_safe

    if AUTO in names:
        return train_chosen(*on, settings=how, **given)
    if production is not None:
        given |= {"production": production, "estimator": names[0]}
        return train_safe(*on, settings=how, **given), None
    more |= {"ranker": how.ranker, "settings": how.settings, "seeds": [how.seed]}
    return train(*on, estimators=names, **{**given, **more}), None


def _require_alone(
    auto: bool, more: bool, safe: str | None, production: str | None
) -> None:
    """Reject what a choice, or safe learning, would not heed."""
    if (safe is None) != (production is None):
        raise ConfigError("--safe and --production go together")
    left = "other estimators, --clip, --patience, --checkpoint and --importance"
    if safe is not None and (auto or more):
        raise ConfigError(
            f"--safe trains one ranker by one estimator: leave out {AUTO}, {left}"
        )
    if auto and more:
        raise ConfigError(
            f"--estimator {AUTO} compares estimators as they are by default: leave "
            f"out {left}"
        )


def _report_users(trained: Any, save_users: Path | None) -> None:
    """Say how users were estimated, where they were, and write them."""
    found = trained.estimate
    if found is None:
        return
    display.say(f"no --users: estimated by {found.method} ({found.why})")
    for note in found.notes:
        display.say(f"note: {note}")
    if save_users is not None:
        from affinerank.clicks.users import save_users as write_users

        write_users(found.users, save_users)
