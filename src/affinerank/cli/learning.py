"""The command ``train``: rankers trained on counted clicks.

Options are checked before any file is read. Then one of three functions of the pipeline
trains: :func:`train`, :func:`train_chosen` (--auto) or :func:`train_safe` (--safe).
"""

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
    RELEVANT_ABOVE,
    TREES,
    TUNING,
)
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress

if TYPE_CHECKING:
    from affinerank.pipeline.compare import ChoiceSettings

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
    from affinerank.pipeline.compare import parse_budget, train_chosen
    from affinerank.pipeline.safe import train_safe
    from affinerank.pipeline.weighing import require_click_model_possible

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

    # Estimators, rankers and their settings: as given, or the defaults.
    plan = _plan(
        auto,
        parse_budget(budget or BUDGET),
        estimators=estimator,
        ranker=ranker or (TREES if engine else None),
        tuning=tuning,
        scaling=scaling,
        categories=categories,
        relevant_above=relevant_above,
        seed=seed,
    )
    patience_pair = [f"patience={patience}"] if patience else []
    setting_pairs = [*(settings or []), *patience_pair]
    if engine is None:  # else the data decide how to train, below
        plan = _with_settings(plan, setting_pairs)

    # Whether a click model is needed; --auto and --safe evaluate with one.
    known_model = load(click_model)
    evaluators = (CORRECTION,) if auto or safe else ()
    needs_click_model = require_click_model_possible(
        (*plan.estimators, *evaluators), known_model
    )
    if save_click_model is not None and (
        known_model is not None or not needs_click_model
    ):
        raise ConfigError(
            "--save-click-model is for a click model that is estimated here"
        )

    # Read clicks and features.
    clicks = days.load(counts)
    dataset = data_options.read(data)
    if engine is not None:
        plan = _plan_for_engine(plan, engine, dataset)
        plan = _with_settings(plan, setting_pairs)

    # Train.
    choice = None
    if auto:
        trained, choice = train_chosen(
            clicks,
            dataset,
            known_model,
            settings=plan,
            strict=strict,
            progress=progress,
        )
    elif production is not None:
        trained = train_safe(
            clicks,
            dataset,
            known_model,
            production=production,
            settings=plan,
            strict=strict,
            progress=progress,
        )
    else:
        validation_part = None
        if patience is not None:
            validation_part = _early_stopping_part(
                validation, data, data_options, clicks, dataset
            )
        trained = _train_plan(
            plan,
            clicks,
            dataset,
            known_model,
            validation=validation_part,
            clip=clip,
            checkpoint=checkpoint,
            importance=importance,
            strict=strict,
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


def _plan(
    auto: bool,
    budget: float,
    *,
    estimators: list[str] | None,
    ranker: str | None,
    **options: Any,
) -> ChoiceSettings:
    """Return what to train, or with --auto what to compare; defaults where not given.

    Args:
        auto: Whether several estimators and rankers are compared.
        budget: Seconds.
        estimators: Values of --estimator.
        ranker: Value of --ranker.
        options: Other fields of the plan.
    """
    from affinerank.pipeline.compare import COMPARED, ChoiceSettings, rankers_to_compare

    default_estimators = COMPARED if auto else (ESTIMATOR,)
    default_rankers = rankers_to_compare() if auto else (RANKER,)
    return ChoiceSettings(
        rankers=(ranker,) if ranker else default_rankers,
        estimators=tuple(dict.fromkeys(estimators or default_estimators)),
        budget=budget,
        **options,
    )


def _with_settings(plan: ChoiceSettings, setting_pairs: list[str]) -> ChoiceSettings:
    """Add the values of --set to a plan; reject them if it has several rankers."""
    from affinerank.pipeline.train import given_rates, ranker_settings

    if len(plan.rankers) == 1:
        [ranker] = plan.rankers
        return replace(
            plan,
            settings=ranker_settings(ranker, setting_pairs, plan.seed),
            rates=given_rates(ranker, setting_pairs),
        )
    if setting_pairs:
        raise ConfigError("--set is for one ranker; with --auto, name it (--ranker)")
    return plan


def _plan_for_engine(plan: ChoiceSettings, engine: str, dataset: Any) -> ChoiceSettings:
    """Change a plan so that the engine can serve the ranker."""
    from affinerank.export.serving import plan_for_engine

    [ranker] = plan.rankers
    training = plan_for_engine(engine, ranker, plan.scaling, plan.categories, dataset)
    return replace(
        plan,
        rankers=(training.ranker,),
        scaling=training.scaling,
        categories=training.categories or plan.categories,
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


def _train_plan(
    plan: ChoiceSettings,
    clicks: Any,
    dataset: Any,
    click_model: Any,
    **options: Any,
) -> Any:
    """Train the one ranker of a plan by each of its estimators.

    Args:
        plan: What to train.
        clicks: Impressions and clicks.
        dataset: Features of the documents.
        click_model: How users click.
        options: Other keyword arguments of :func:`affinerank.pipeline.train`.
    """
    from affinerank.pipeline.train import train

    [ranker] = plan.rankers
    return train(
        clicks,
        dataset,
        click_model,
        ranker=ranker,
        settings=plan.settings,
        estimators=plan.estimators,
        seeds=[plan.seed],
        relevant_above=plan.relevant_above,
        tuning=plan.tuning,
        scaling=plan.scaling,
        categories=plan.categories,
        rates=plan.rates,
        **options,
    )


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
