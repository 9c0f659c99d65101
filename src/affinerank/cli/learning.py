"""The command ``train``: rankers trained on counted clicks.

Options are checked before any file is read. Then one of three functions of the pipeline
trains: :func:`train`, :func:`train_chosen` (--auto) or :func:`train_safe` (--safe).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    RELEVANT_ABOVE,
    TREES,
    TUNING,
)
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress

if TYPE_CHECKING:
    from affinerank.pipeline.steps.train_settings import TrainSettings

BUDGET = "5m"


def train(
    counts: Counts,
    *,
    data: str,
    output: Output,
    click_model: Path | None = None,
    save_click_model: Path | None = None,
    engine: Annotated[str | None, Option("--for")] = None,
    auto: bool = False,
    budget: str | None = None,
    estimator: list[str] | None = None,
    ranker: str | None = None,
    clip: str | None = None,
    strict: bool = False,
    tuning: str = TUNING,
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
    data_options: DataOptions,
    days: Days,
    seed: Seed = 0,
    progress: Progress,
) -> Result | None:
    """Train a ranker on corrected clicks.

    Settings of the ranker are given with --set, as in --set trees=100. Trees also take
    settings of LightGBM or XGBoost (lambda_l2=1), and features in which the score must
    rise or fall (monotone=price=-1,rating=+1).

    Example: affinerank train counts.parquet --data yahoo-like:500
    --click-model click-model.json -o model

    Options:
        output: New folder for the ranker.
        save_click_model: Write the estimated click model to this file.
        engine: Train a ranker that this engine can serve: opensearch, elasticsearch,
            solr, vespa or ranklib. Trees by default; some engines also take --ranker
            linear-model.
        auto: Compare estimators and rankers on held-out clicks, then train the best.
        budget: Most time for --auto (or --safe), as in 90s, 5m or 1h; 5m by default.
        estimator: {ESTIMATORS} ({ESTIMATOR} by default). Several are trained together,
            one folder each.
        strict: Reject ranks that the click model lacks.
        ranker: {RANKERS} ({RANKER} by default).
        tuning: {TUNING}: held-out queries choose the learning rate and the number of
            epochs (or trees), then the ranker is trained on all queries; {NO_TUNING}:
            as the settings say.
        scaling: Scaling of features: list (within the query), data (by numbers stored
            with the ranker) or none. By default none for trees, list for linear models
            and networks; a blend scales for each of its members.
        categories: How text columns are read: native (trees only, their default), or
            one-hot: a feature for each value, as brand=nike, which search engines can
            serve.
        patience: Stop after this many epochs (or trees) without a gain on held-out
            clicks: those of --validation, or the holdout of COUNTS.
        validation: Counts for early stopping, on the validation split of DATA.
        checkpoint: Resume from this file if interrupted.
        importance: Measure how much DCG held-out queries lose when each feature is
            permuted within its list. Stored with the ranker.
        safe: Blend with production, and give the learnt ranker only the weight that
            held-out clicks justify. Needs --production.
        production: Feature that holds production's score, for --safe.
    """
    from affinerank.pipeline.compare import (
        ChoiceSettings,
        parse_budget,
        train_chosen,
    )
    from affinerank.pipeline.safe import train_safe
    from affinerank.pipeline.steps.train_settings import TrainSettings
    from affinerank.pipeline.train import train as train_rankers

    # Check the options before anything is read.
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another name or remove it")
    require_writable(
        output,
        checkpoint,
        save_click_model,
        reads=[counts, data, click_model, validation],
    )
    if validation is not None and patience is None:
        raise ConfigError("--validation needs --patience, to know when to stop")
    if budget is not None and not (auto or safe):
        raise ConfigError("--budget is for --auto and --safe; leave it out")
    several_estimators = len(set(estimator or ())) > 1
    exclusive_options = {
        "several --estimator": several_estimators and not auto,
        "--clip": clip is not None,
        "--patience": patience is not None,
        "--checkpoint": checkpoint is not None,
        "--importance": importance,
        "--for": engine is not None,
    }
    _require_compatible(auto, safe, production, exclusive_options)

    # How to train, as the options say.
    compares = auto or safe
    rankers = _rankers(ranker or (TREES if engine else None), several=auto)
    estimators = tuple(dict.fromkeys(estimator or _default_estimators(auto)))
    patience_pair = [f"patience={patience}"] if patience else []
    setting_pairs = [*(settings or []), *patience_pair]
    training = TrainSettings(
        ranker=rankers[0],
        estimators=estimators,
        clip=clip,
        seeds=(seed,),
        tuning=tuning,
        scaling=scaling,
        categories=categories,
        relevant_above=relevant_above,
        strict_depth=strict,
        importance=importance,
    )
    if len(rankers) > 1 and setting_pairs:
        raise ConfigError("--set is for one ranker; with --auto, name it (--ranker)")
    if len(rankers) == 1 and engine is None:  # else the data decide, below
        training = _with_ranker_settings(training, setting_pairs)
    comparison = None
    if compares:
        comparison = ChoiceSettings(
            rankers, estimators, training, parse_budget(budget or BUDGET)
        )

    # The click model. --auto and --safe evaluate with one, too.
    known_model = load(click_model)
    evaluators = (CORRECTION,) if compares else ()
    _require_click_model((*estimators, *evaluators), known_model, save_click_model)

    # Read clicks and features.
    clicks = days.load(counts)
    dataset = data_options.read(data)
    if engine is not None:
        training = _for_engine(training, engine, dataset)
        training = _with_ranker_settings(training, setting_pairs)

    # Train.
    choice = None
    if auto:
        trained, choice = train_chosen(
            clicks, dataset, known_model, settings=comparison, progress=progress
        )
    elif production is not None:
        trained = train_safe(
            clicks,
            dataset,
            known_model,
            production=production,
            settings=comparison,
            progress=progress,
        )
    else:
        validation_part = None
        if patience is not None:
            validation_part = _early_stopping_part(
                validation, data, data_options, clicks, dataset
            )
        trained = train_rankers(
            clicks,
            dataset,
            known_model,
            training,
            validation=validation_part,
            checkpoint=checkpoint,
            progress=progress,
        )

    # Write the ranker. If torchrun started several processes, only the first writes.
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ["RANK"] != "0":
        return None
    about = _write(
        trained,
        choice,
        output,
        save_click_model=save_click_model,
        importance=importance,
    )
    return about, display.trained


def _require_compatible(
    auto: bool, safe: bool, production: str | None, exclusive_options: dict[str, bool]
) -> None:
    """Reject combinations of options of which one would have no effect.

    Args:
        auto: Whether --auto is given.
        safe: Whether --safe is given.
        production: Value of --production.
        exclusive_options: Options that --auto and --safe do not support; and whether
            they are given.
    """
    if safe != (production is not None):
        raise ConfigError("--safe and --production go together")
    if auto and safe:
        raise ConfigError("--auto and --safe do not go together; leave one out")
    if not (auto or safe):
        return
    option = "--auto" if auto else "--safe"
    for exclusive_option, is_given in exclusive_options.items():
        if is_given:
            raise ConfigError(
                f"{option} does not go with {exclusive_option}; leave one out"
            )


def _require_click_model(
    estimators: Sequence[str], known_model: Any, save_click_model: Path | None
) -> None:
    """Reject estimators without a click model, and --save-click-model without use."""
    from affinerank.pipeline.steps.weighing import require_click_model_possible

    is_needed = require_click_model_possible(estimators, known_model)
    is_estimated = is_needed and known_model is None
    if save_click_model is not None and not is_estimated:
        raise ConfigError(
            "--save-click-model is for a click model that is estimated here"
        )


def _default_estimators(compares: bool) -> tuple[str, ...]:
    """Return the estimators to train by, or with --auto to compare."""
    from affinerank.pipeline.compare import COMPARED

    return COMPARED if compares else (ESTIMATOR,)


def _rankers(ranker: str | None, *, several: bool) -> tuple[str, ...]:
    """Return the ranker to train, or with --auto those to compare."""
    from affinerank.pipeline.compare import rankers_to_compare

    if ranker is not None:
        return (ranker,)
    return rankers_to_compare() if several else (RANKER,)


def _with_ranker_settings(
    training: TrainSettings, setting_pairs: list[str]
) -> TrainSettings:
    """Add the values of --set, and what the ranker has by default."""
    from affinerank.pipeline.steps.train_settings import (
        given_learning_rates,
        ranker_settings,
    )

    [seed] = training.seeds
    return replace(
        training,
        ranker_settings=ranker_settings(training.ranker, setting_pairs, seed),
        learning_rates=given_learning_rates(training.ranker, setting_pairs),
    )


def _for_engine(training: TrainSettings, engine: str, dataset: Any) -> TrainSettings:
    """Change how to train so that the engine can serve the ranker."""
    from affinerank.export.serving import plan_for_engine

    plan = plan_for_engine(
        engine, training.ranker, training.scaling, training.categories, dataset
    )
    return replace(
        training,
        ranker=plan.ranker,
        scaling=plan.scaling,
        categories=plan.categories or training.categories,
    )


def _early_stopping_part(
    validation: Path | None,
    data: str,
    data_options: DataOptions,
    clicks: Any,
    dataset: Any,
) -> tuple[Any, Any]:
    """Return the clicks that decide when training stops, and their features.

    They are the counts of --validation, with the validation split of DATA; or without
    --validation the holdout of COUNTS.

    Args:
        validation: Value of --validation.
        data: DATA.
        data_options: How DATA is read.
        clicks: The counts of COUNTS.
        dataset: The features that belong to ``clicks``.
    """
    from affinerank.counts.holdout import held_out

    if validation is None:
        return held_out(clicks), dataset
    validation_data = data_options.read(data, "validation", named=False)
    return Days().load(validation), validation_data


def _write(
    trained: Any,
    choice: Any,
    output: Path,
    *,
    save_click_model: Path | None,
    importance: bool,
) -> dict[str, Any]:
    """Write the rankers and the estimated click model; return data about them."""
    if trained.estimate is not None:
        _report_estimate(trained.estimate, save_click_model)
    about: dict[str, Any] = trained.save(output)
    if choice is not None:
        about["choice"] = choice.to_dict()
    if importance:
        about["importance"] = {
            estimator: ranker.provenance.get("importance")
            for (estimator, _), ranker in trained.rankers.items()
        }
    return about


def _report_estimate(estimate: Any, save_click_model: Path | None) -> None:
    """Say how the click model was estimated, and write it if asked to."""
    display.say(f"no --click-model: estimated by {estimate.method} ({estimate.why})")
    for note in estimate.notes:
        display.say(f"note: {note}")
    if save_click_model is not None:
        from affinerank.clicks.models.files import save_click_model as write_click_model

        write_click_model(estimate.click_model, save_click_model)
