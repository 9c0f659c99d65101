"""How long does each method of the plan `field` take by itself?

Draws one log of the plan (the first data set and users, most clicks, one fixed list),
and measures every cell of it alone: clicks drawn, users estimated, clicks weighed, a
ranker trained and judged. Printed: seconds, and nDCG@10 of this one run.

    python benchmarks/field.py --profile laptop > docs/results/field-seconds.txt
"""

from __future__ import annotations

import argparse
import sys
import time

from affinerank.research.cells import PRODUCTION
from affinerank.research.curves import Point
from affinerank.research.groups import cells_of
from affinerank.research.measure import measure
from affinerank.research.plan import shipped_plan
from affinerank.research.worlds import World


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="laptop")
    plan = shipped_plan("field", parser.parse_args().profile)
    data, click_model_from, most = plan.data[0], plan.click_models[0], max(plan.clicks)
    world = World(data, plan.seed)
    world.rank([0], held_out=True)
    sys.stdout.write("| | seconds | nDCG@10 |\n|---|---|---|\n")
    for cell in cells_of(plan):
        log = (data.name, click_model_from, plan.policies[0], most, 0)
        free = cell.click_model is None and cell.estimator != PRODUCTION
        if cell.log != log and not (free and (cell.data, cell.run) == (data.name, 0)):
            continue
        settings = plan.train_settings(cell.ranker or plan.rankers[0].name, data, "cpu")
        start = time.perf_counter()
        [found] = measure(world, [cell], settings, early_stopping=True)
        seconds = time.perf_counter() - start
        name = Point(cell, ()).whole_method
        value = f"{found.held_out_ndcg or found.ndcg:.3f}".removeprefix("0")
        sys.stdout.write(f"| {name} | {seconds:.1f} | {value} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
