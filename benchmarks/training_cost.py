"""How much of a training is LightGBM's own? `--ranker lightgbm --estimator naive`.

Trains once, and notes what `lightgbm.train` and the binning of features are given. Then
replays these calls alone, in the same process, without our choice by held-out clicks.
Prints CPU seconds of both, their ratio, and where the time of the default goes.

    python -m benchmarks.training_cost --data yahoo-like:300 --clicks 1e5
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import lightgbm

import affinerank as ar
from affinerank.data.sources import DataSource
from affinerank.support.progress import StageTimes
from affinerank.support.seeds import stage_rng

Calls = list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]


def main() -> None:
    """Measure, replay and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:300")
    parser.add_argument("--clicks", type=float, default=1e5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = DataSource.parse(options.data).read("train")
    simulation = ar.prepare_simulation(data)
    counts = ar.simulate_counts(
        simulation, simulation.sessions_for(options.clicks), rng=stage_rng("clicks", 0)
    )
    naive: dict[str, Any] = {"ranker": "lightgbm", "estimators": ["naive"]}
    ar.train(counts, data, **naive)  # imports, and what numba compiles

    calls: Calls = []
    with noted(calls):
        started = time.process_time()
        ar.train(counts, data, **naive)
        ours = time.process_time() - started
    alone = sum(replay(calls) for _ in range(3)) / 3
    print(f"{options.data}, {options.clicks:g} clicks, CPU seconds")
    print(f"  trees of plain clicks   {ours:6.2f}")
    print(f"  LightGBM's calls alone  {alone:6.2f}   ratio {ours / alone:.2f}")

    times = StageTimes()
    started = time.process_time()
    ar.train(counts, data, progress=times)
    times.end_stage()
    print(f"  the default             {time.process_time() - started:6.2f}")
    for row in times.rows():
        print(f"    {row['stage']:<24}{row['cpu_seconds']:6.2f}")


@contextmanager
def noted(calls: Calls) -> Iterator[None]:
    """Note every call of ``lightgbm.train``, and pass it on; features are kept."""
    train = lightgbm.train

    def noting(*given: Any, **more: Any) -> Any:
        calls.append((train, given, more))
        return train(*given, **more)

    keeping = partial(lightgbm.Dataset, free_raw_data=False)
    with (
        patch.object(lightgbm, "train", noting),
        patch.object(lightgbm, "Dataset", keeping),
    ):
        yield


def replay(calls: Calls) -> float:
    """Train again on freshly binned features; return CPU seconds.

    As many trees are trained as before: where held-out clicks ended a training, they
    are counted first, outside the clock.
    """
    seconds = 0.0
    for train, (parameters, data), more in calls:
        kept = {key: more[key] for key in ("num_boost_round",)}
        if more.get("feval") is not None:
            kept["num_boost_round"] = train(
                parameters, data, **more
            ).current_iteration()
        raw = data.get_data()
        fresh = lightgbm.Dataset(
            raw,
            label=data.get_label(),
            group=data.get_group(),
            weight=data.get_weight(),
            params=data.params,
        )
        started = time.process_time()
        train(parameters, fresh, **kept)
        seconds += time.process_time() - started
    return seconds


if __name__ == "__main__":
    main()
