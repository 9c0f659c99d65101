"""Rankers trained on counted clicks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

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
from affinerank.defaults import (
    CORRECTION,
    ESTIMATOR,
    RANKER,
    RECIPE,
    RELEVANT_ABOVE,
    TREES,
)
from affinerank.errors import ConfigError
from affinerank.progress import Progress

if TYPE_CHECKING:
    from affinerank.pipeline import ChoiceSettings

BUDGET = "5m"


def train(
    counts: Counts,
    *,
    data: str,
    output: Output,
    users: Path | None = None,
    save_users: Path | None = None,
    engine: Annotated[str | None, Option("--for")] = None,
    auto: bool = False,
    budget: str | None = None,
    estimator: list[str] | None = None,
    ranker: str | None = None,
    clip: str | None = None,
    strict: bool = False,
    recipe: str = RECIPE,
    scaling: str | None = None,
    categories: str | None = None,
    settings: Set = None,
    patience: Positive = None,
    validation: Path | None = None,
    checkpoint: Path | None = None,
    importance: bool = False,
    safe: bool = False,
    production: str | None = None,
    relevant_above: float = RELEVANT_ABOVE,
    of: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result | None:
    """Train a ranker on corrected clicks.

    With --set, settings of the ranker, as in --set trees=100; of trees alone also
    LightGBM's or XGBoost's own (lambda_l2=1), and monotone scores
    (monotone=price=-1,rating=+1).

    Example: affinerank train counts.parquet --data yahoo-like:500
    --users users.json -o model

    Options:
        output: New folder for the ranker.
        save_users: Write the user model that was estimated.
        engine: Train what this engine can serve (opensearch, elasticsearch, solr, vespa
            or ranklib): trees, or with --ranker linear-model a linear model.
        auto: Compare estimators and rankers by held-out clicks, and train the best.
        budget: Time that --auto (or --safe) should take at most, as in 90s, 5m or 1h;
            5m by default.
        estimator: {ESTIMATORS} ({ESTIMATOR} by default); several are trained together,
            one folder each.
        strict: Reject ranks the user model lacks.
        ranker: {RANKERS} ({RANKER} by default).
        recipe: {RECIPE}: learning rate and number of epochs (or trees) by held-out
            queries, then trained on all; {PAPER}: as the settings say.
        scaling: Of features: list (within the query), data (by numbers that the ranker
            keeps) or none. By default none for trees, list for linear models and
            networks; the blend scales for each of its members.
        categories: Columns of text: native, for trees (the default there), or one-hot:
            a feature for each value, as brand=nike, which search engines can serve.
        patience: Stop early: after so many epochs (or trees) without gain on held-out
            clicks, those of --validation, or the holdout of COUNTS.
        validation: Counts used for early stopping; data: the validation split.
        checkpoint: Resume from this file if interrupted.
        importance: Permute each feature within the lists of held-out queries, and say
            what DCG that costs; the ranker keeps it.
        safe: Blend with production, and leave it only as far as held-out clicks allow;
            needs --production.
        production: Feature that holds production's score, for --safe.
    """
    from affinerank.pipeline import held_out, train, train_chosen, train_safe
    from affinerank.pipeline.choice import parse_budget
    from affinerank.pipeline.weighing import require_users_possible
    from affinerank.rankers.serving import servable

    # What is asked for, checked before anything is read.
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    require_writable(
        output, checkpoint, save_users, reads=[counts, data, users, validation]
    )
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    estimators = list(dict.fromkeys(estimator or [ESTIMATOR]))
    if budget is not None and not (auto or safe):
        raise ConfigError("--budget is for --auto and --safe; leave it out")
    alone = {
        "several --estimator": len(estimators) > 1,
        "--clip": clip is not None,
        "--patience": patience is not None,
        "--checkpoint": checkpoint is not None,
        "--importance": importance,
        "--for": engine is not None,
    }
    _require_fitting(auto, safe, production, alone)
    how = _asked(
        auto,
        parse_budget(budget or BUDGET),
        estimators=estimator,
        ranker=ranker or (TREES if engine else None),
        recipe=recipe,
        scaling=scaling,
        categories=categories,
        relevant_above=relevant_above,
        seed=seed,
    )
    pairs = [*(settings or []), *([f"patience={patience}"] if patience else [])]
    how = _with_settings(how, pairs, later=engine is not None)
    known = load(users)
    evaluated_by = (CORRECTION,) if auto or safe else ()
    needed = require_users_possible((*how.estimators, *evaluated_by), known)
    if save_users is not None and (known is not None or not needed):
        raise ConfigError("--save-users is for users that are estimated here")

    # Clicks, features and users.
    clicks, read = days.load(counts), of.read(data)
    if needed:
        known = load(users, clicks, seed)
    if engine is not None:
        plan = servable(engine, ranker, scaling, categories, read)
        how = replace(
            how,
            rankers=(plan.ranker,),
            scaling=plan.scaling,
            categories=plan.categories or categories,
        )
        how = _with_settings(how, pairs)

    # The ranker.
    choice = None
    same: dict[str, Any] = {"strict": strict, "progress": progress}
    if auto:
        trained, choice = train_chosen(clicks, read, known, settings=how, **same)
    elif production is not None:
        same |= {"production": production, "settings": how}
        trained = train_safe(clicks, read, known, **same)
    else:
        held = None
        if validation is not None:
            held_data = of.read(data, "validation", named=False)
            held = (Days().load(validation), held_data)
        elif patience is not None:
            held = (held_out(clicks), read)
        [name] = how.rankers
        trained = train(
            clicks,
            read,
            known,
            ranker=name,
            settings=how.settings,
            estimators=estimators,
            seeds=[seed],
            clip=clip,
            relevant_above=relevant_above,
            recipe=recipe,
            scaling=how.scaling,
            categories=how.categories,
            rates=how.rates,
            validation=held,
            checkpoint=checkpoint,
            importance=importance,
            **same,
        )

    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ["RANK"] != "0":
        return None  # torchrun started several processes: the first writes
    about = _written(
        trained, choice, output, save_users=save_users, importance=importance
    )
    return about, display.trained


def _asked(
    auto: bool,
    budget: float,
    *,
    estimators: list[str] | None,
    ranker: str | None,
    **options: Any,
) -> ChoiceSettings:
    """Return what is trained, or compared: the defaults, where nobody says."""
    from affinerank.pipeline import ChoiceSettings
    from affinerank.pipeline.choice import COMPARED, rankers_to_compare

    default_estimators = COMPARED if auto else (ESTIMATOR,)
    default_rankers = rankers_to_compare() if auto else (RANKER,)
    return ChoiceSettings(
        rankers=(ranker,) if ranker else default_rankers,
        estimators=tuple(dict.fromkeys(estimators or default_estimators)),
        budget=budget,
        **options,
    )


def _with_settings(
    how: ChoiceSettings, pairs: list[str], later: bool = False
) -> ChoiceSettings:
    """Read settings of the one ranker, unless which one it is turns out later."""
    from affinerank.pipeline import given_rates, ranker_settings

    if later:
        return how
    if len(how.rankers) == 1:
        [name] = how.rankers
        settings = ranker_settings(name, pairs, how.seed)
        return replace(how, settings=settings, rates=given_rates(name, pairs))
    if pairs:
        raise ConfigError("--set is for one ranker; with --auto, name it (--ranker)")
    return how


def _written(
    trained: Any,
    choice: Any,
    output: Path,
    *,
    save_users: Path | None,
    importance: bool,
) -> dict[str, Any]:
    """Write what was trained; return it as plain data."""
    _report_users(trained, save_users)
    about: dict[str, Any] = trained.save(output)
    if choice is not None:
        about["choice"] = choice.to_dict()
    if importance:
        about["importance"] = {
            name: one.provenance.get("importance")
            for (name, _), one in trained.rankers.items()
        }
    return about


def _require_fitting(
    auto: bool, safe: bool, production: str | None, others: dict[str, bool]
) -> None:
    """Reject what a choice, or safe learning, would not heed."""
    if safe != (production is not None):
        raise ConfigError("--safe and --production go together")
    if auto and safe:
        raise ConfigError("--auto and --safe do not go together; leave one out")
    asked = [name for name, is_given in others.items() if is_given]
    if auto and "several --estimator" in asked:
        asked.remove("several --estimator")
    if asked and (auto or safe):
        option = "--auto" if auto else "--safe"
        raise ConfigError(f"{option} does not go with {asked[0]}; leave one out")


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
