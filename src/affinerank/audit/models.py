"""Which users predict held-out sessions: click models compared, as words and lines."""

from __future__ import annotations

from collections.abc import Sequence

from affinerank.audit.findings import Block, Column
from affinerank.bias import Estimate
from affinerank.bias.mixture.comparison import CLEAR, Compared, best_model
from affinerank.output.charts import lines_by_rank

TITLE = "Which users predict held-out sessions"
MODELS = (
    Column("Users", "{model}"),
    Column("Log-likelihood per impression", "{log_likelihood:.4f}"),
    Column("Perplexity", "{perplexity:.4f}"),
    Column("Lead over the best simpler", "{lead:+.5f}"),
    Column("Standard error", "{lead_error:.5f}"),
    Column("", "{standing}"),
)
NOTE = (
    "Half of the sessions predict the clicks of the other half. Perplexity is 1 where "
    "every click is foreseen, and 2 for the toss of a coin. A model is ahead if its "
    "lead is over two standard errors; those after it are compared with it."
)


def models_text(models: Sequence[Compared]) -> str:
    """Say which users predict best, and by how much."""
    best = best_model(models)
    number = f"{len(models)} click models"
    if best is models[0]:
        return (
            f"Of {number}, none predicts held-out sessions clearly better than the "
            f"simplest, {best.model}: the simpler is kept where they tie."
        )
    before = best_model(models[: list(models).index(best)])
    return (
        f"Of {number}, users of {best.model} predict held-out sessions best: by "
        f"{best.lead:.2g} (standard error {best.lead_error:.1g}) in log-likelihood per "
        f"impression over {before.model}; the simpler is kept where they tie. So alpha "
        f"and beta were estimated {best.view.name}."
    )


def models_block(estimate: Estimate) -> Block:
    """Return the comparison as a table and, where there are ranks, a picture."""
    best = best_model(estimate.models)
    rows = [
        {**row.to_dict(), "standing": "kept" if row is best else _standing(row)}
        for row in estimate.models
    ]
    rows[0] |= {"lead": None, "lead_error": None}  # nothing is simpler
    rows[0]["standing"] = "kept" if best is estimate.models[0] else None
    pools = estimate.pools
    places = list(zip(pools.names, pools.mean_rank.tolist(), strict=True))
    series = {
        row.model: [
            {"rank": name, "mean_rank": place, "value": value}
            for (name, place), value in zip(places, row.by_rank, strict=True)
        ]
        for row in estimate.models
        if len(row.by_rank) == len(places)  # every rank was held out
    }
    spec = lines_by_rank(series, "perplexity", zero=False) if series else None
    figure = ("models", spec) if spec else None
    return Block(MODELS, rows, TITLE, figure, (NOTE,))


def _standing(row: Compared) -> str:
    if row.clear:
        return "ahead"
    return "behind" if -row.lead > CLEAR * row.lead_error else "a tie"
