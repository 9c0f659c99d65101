"""Rankers trained on counted clicks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from affinerank.cli import display
from affinerank.cli.options import (
    Clip,
    Counts,
    DataOptions,
    Days,
    Json,
    RelevantAbove,
    Seed,
    Set,
    Users,
    bars,
    command,
    load,
    load_held_against,
    require_writable,
    show,
)
from affinerank.defaults import (
    BASELINE,
    CORRECTION,
    ESTIMATOR,
    PAPER,
    RANKER,
    RECIPE,
    RELEVANT_ABOVE,
)
from affinerank.errors import ConfigError

AUTO = "auto"

TrainData = Annotated[
    str, Option(help="Features: a file, a folder, a table or a world.")
]
NewFolder = Annotated[Path, Option("-o", "--output", help="New folder for the ranker.")]
SaveUsers = Annotated[
    Path | None, Option(help="Write the user model that was estimated.")
]
Estimators = Annotated[
    list[str] | None,
    Option(
        help=f"{{ESTIMATORS}} ({ESTIMATOR} by default); several are trained "
        f"together, one folder each; {AUTO}: {ESTIMATOR}, unless {CORRECTION} or "
        f"{BASELINE} does better on held-out queries, by two judges."
    ),
]
Strict = Annotated[bool, Option("--strict", help="Reject ranks the user model lacks.")]
RankerName = Annotated[str, Option(help="{RANKERS}.")]
Budget = Annotated[
    str,
    Option(help=f"Time that {AUTO} should take at most, as in 90s, 5m or 1h."),
]
Recipe = Annotated[
    str,
    Option(
        help=f"{RECIPE}: learning rate and number of epochs (or trees) by held-out "
        f"queries, then trained on all; {PAPER}: as the settings say."
    ),
]
Scaling = Annotated[
    str | None,
    Option(
        help="Of features: list (within the query), data (by numbers that the ranker "
        "keeps) or none; left out, list for networks, none for trees."
    ),
]
Categories = Annotated[
    str | None,
    Option(
        help="Columns of text: native, for trees (the default there), or one-hot: a "
        "feature for each value, as brand=nike, which search engines can serve."
    ),
]
Patience = Annotated[
    int | None,
    Option(
        min=1,
        help="Stop early: after so many epochs (or trees) without gain on held-out "
        "clicks, those of --validation, or the holdout of COUNTS.",
    ),
]
HeldOut = Annotated[
    Path | None,
    Option(help="Counts used for early stopping; data: the validation split."),
]
Importance = Annotated[
    bool,
    Option(
        "--importance",
        help="Permute each feature within the lists of held-out queries, and say what "
        "DCG that costs; the ranker keeps it.",
    ),
]
Safe = Annotated[
    str | None,
    Option(
        help="Learn within limits ({SAFEGUARDS}), and leave production only as far as "
        "held-out clicks allow; needs --production. For networks and trees."
    ),
]
Production = Annotated[
    str | None, Option(help="Feature that holds production's score, for --safe.")
]
Checkpoint = Annotated[
    Path | None, Option(help="Resume from this file if interrupted.")
]


@command
def train(
    counts: Counts,
    *,
    data: TrainData,
    output: NewFolder,
    users: Users = None,
    save_users: SaveUsers = None,
    estimator: Estimators = None,
    clip: Clip = None,
    strict: Strict = False,
    ranker: RankerName = RANKER,
    budget: Budget = "5m",
    recipe: Recipe = RECIPE,
    scaling: Scaling = None,
    categories: Categories = None,
    settings: Set = None,
    patience: Patience = None,
    validation: HeldOut = None,
    checkpoint: Checkpoint = None,
    importance: Importance = False,
    safe: Safe = None,
    production: Production = None,
    relevant_above: RelevantAbove = RELEVANT_ABOVE,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train networks or trees on corrected clicks.

    With --set, settings of the ranker, as in --set epochs=12; of trees also LightGBM's
    or XGBoost's own (lambda_l2=1), and monotone scores (monotone=price=-1,rating=+1).

    Example: affinerank train counts.parquet --data yahoo-like:500
    --users users.json --ranker lightgbm -o model
    """
    from affinerank.pipeline import (
        ChoiceSettings,
        given_rates,
        held_out,
        ranker_settings,
        train,
        train_chosen,
        train_safe,
    )
    from affinerank.pipeline.choice import parse_budget
    from affinerank.pipeline.weighing import require_users_possible

    names = list(dict.fromkeys(estimator or [ESTIMATOR]))
    auto = AUTO in names
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    require_writable(
        output, checkpoint, save_users, reads=[counts, data, users, validation]
    )
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    more = (patience, checkpoint, clip, importance)
    _require_alone(auto, len(names) > 1 or any(more), safe, production)
    seconds = parse_budget(budget)
    pairs = [*(settings or []), *([f"patience={patience}"] if patience else [])]
    how = ranker_settings(ranker, pairs, seed)
    known = load(users)
    needed = require_users_possible([ESTIMATOR] if auto else names, known)
    if save_users is not None and (known is not None or not needed):
        raise ConfigError("--save-users is for users that are estimated here")
    with bars() as progress:
        given: dict[str, Any] = {"strict": strict, "progress": progress}
        clicks, read = days.load(counts), of.read(data)
        if needed:
            known = load_held_against(users, clicks, seed)
        same: dict[str, Any] = {
            "scaling": scaling,
            "categories": categories,
            "recipe": recipe,
            "safe": safe,
        }
        compared, choice = ChoiceSettings(ranker, how, seconds, seed, **same), None
        if auto:
            trained, choice = train_chosen(
                clicks, read, known, settings=compared, **given
            )
        elif production is not None:
            given |= {"production": production, "estimator": names[0]}
            trained = train_safe(clicks, read, known, settings=compared, **given)
        else:
            given |= {**same, "estimators": names, "relevant_above": relevant_above}
            given |= {"settings": how, "rates": given_rates(ranker, pairs)}
            given |= {"clip": clip, "checkpoint": checkpoint, "importance": importance}
            if validation is not None:
                held = of.read(data, "validation", named=False)
                given["validation"] = (Days().load(validation), held)
            elif patience is not None:
                given["validation"] = (held_out(clicks), read)
            trained = train(clicks, read, known, ranker=ranker, seeds=[seed], **given)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ["RANK"] != "0":
        return  # torchrun started several processes: the first writes
    _report_users(trained, save_users)
    about = trained.save(output)
    if choice is not None:
        about["choice"] = choice.to_dict()
    if importance:
        about["importance"] = {
            name: one.provenance.get("importance")
            for (name, _), one in trained.rankers.items()
        }
    show(about, as_json, display.trained)


def _require_alone(
    auto: bool, more: bool, safe: str | None, production: str | None
) -> None:
    """Reject what a choice, or safe learning, would not heed."""
    if (safe is None) != (production is None):
        raise ConfigError("--safe and --production go together")
    if safe is not None and (auto or more):
        raise ConfigError(
            f"--safe trains one ranker by one estimator: leave out {AUTO}, other "
            "estimators, --clip, --patience, --checkpoint and --importance"
        )
    if auto and more:
        raise ConfigError(
            f"--estimator {AUTO} compares estimators as they are by default: leave "
            "out other estimators, --clip, --patience, --checkpoint and --importance"
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
