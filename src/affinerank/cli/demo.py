"""The demo: the commands of the whole path, on the two files of a small shop.

The shop is synthetic: a log of a month of searches, and the table of its products. The
relevance behind them is known, so the last command can tell if the ranker is right.
"""

from __future__ import annotations

from typing import NamedTuple

WORLD = "shop-like:200"
CLICKS = "20000"


class Step(NamedTuple):
    """A command of the demo.

    Attributes:
        title: What it shows, in a sentence.
        words: Of the command, without ``affinerank``.
    """

    title: str
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command as it is typed."""
        return " ".join(("affinerank", *self.words))


def demo_steps(seed: int = 0) -> list[Step]:
    """Return the commands of the demo, to be run in a folder of their own."""
    log_columns = (
        *("--column", "query_id=query", "--column", "doc_id=product_id"),
        *("--column", "rank=position", "--offset", "results_before"),
    )
    products = (
        *("--data", "products.csv", "--data-column", "query_id=query"),
        *("--data-column", "doc_id=product_id"),
    )
    seeded = ("--seed", str(seed)) if seed else ()
    return [
        Step(
            "A shop's files: a month of searches, and the products that were found.",
            (
                *("simulate", WORLD, "--clicks", CLICKS, "--log", "log.csv"),
                *("--features", "products.csv", *seeded),
            ),
        ),
        Step(
            "Is the log fit for learning, and how biased are its clicks?",
            ("audit", "log.csv", *log_columns, *seeded),
        ),
        Step(
            "Impressions and clicks are counted; a fifth of the searches is held out.",
            ("count", "log.csv", *log_columns, "--holdout", "0.2", *seeded),
        ),
        Step(
            "How users click, estimated from the clicks alone.",
            (
                "estimate",
                "counts.parquet",
                *products,
                "-o",
                "click-model.json",
                *seeded,
            ),
        ),
        Step(
            "A ranker that learns from corrected clicks.",
            (
                *(
                    "train",
                    "counts.parquet",
                    *products,
                    "--click-model",
                    "click-model.json",
                ),
                *("-o", "model", *seeded),
            ),
        ),
        Step(
            "Is it better? The relevance behind the shop, which no log has, says so.",
            ("evaluate", "model", "--data", WORLD),
        ),
    ]
