"""Posterior: own clicks and what features predict, weighed by what each knows.

With few clicks it is what rankers of other queries expect, with many it is affine. A
document that was never shown is not masked, it is uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from affinerank.defaults import CLIP
from affinerank.estimators import affine, naive
from affinerank.estimators.estimator import CLICKS, Estimator, Evidence, Weights
from affinerank.estimators.prior import stacked_prior
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.estimators.shrinkage import shrink
from affinerank.support.settings import require_choice

PRIORS = ("features", "rank")


@dataclass(frozen=True, slots=True)
class PosteriorOptions:
    """Options of the posterior.

    Attributes:
        prior: What is expected before a document's own clicks: by ``features``, with
            rankers of other queries, or by the ``rank`` it was shown at alone.
    """

    prior: str = PRIORS[0]

    def __post_init__(self) -> None:
        """Reject a prior that does not exist."""
        require_choice("prior", self.prior, PRIORS)


def weigh(evidence: Evidence) -> Weights:
    """Shrink corrected clicks towards the stacked prior."""
    link = RelevanceScale.of(evidence.required_click_model, evidence.rows)
    return link.weights(*shrink(link, *stacked_prior(link, evidence.folds)))


def _learns(options: Any) -> tuple[str, ...]:
    if options.prior == PRIORS[1]:
        return ()
    return (CLICKS, naive.ROW.name, f"{affine.ROW.name}(clip={CLIP})")


ROW = Estimator(
    "posterior",
    "Posterior",
    "relative",
    weigh,
    options=PosteriorOptions,
    learns=_learns,
)
