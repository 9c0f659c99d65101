"""What the paper's section 7 says, each statement held against the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from affinerank.experiments.checks import (
    ACCURATE,
    NEAR,
    SAME,
    SETTLED,
    SLIGHT,
    Finding,
    above,
    affine_best,
    affine_few,
    affine_near,
    affine_unfinished,
    alpha_off,
    bayes_gap,
    beta_accurate,
    beta_low,
    clipping_helps,
    consistent,
    naive_settled,
    sigmoid_poorest,
    significant,
    soft_min_max_best,
    soft_min_max_close,
    softmax_decent,
)
from affinerank.experiments.results import Result
from affinerank.experiments.summary import MANY, Summary


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper, and how it is held against results.

    Attributes:
        text: What the paper says.
        rule: What must be so for it to hold.
        check: Finds out.
    """

    text: str
    rule: str
    check: Callable[[Summary], Finding]


def judge_statements(results: Sequence[Result]) -> list[tuple[Statement, Finding]]:
    """Hold every statement against results."""
    summary = Summary(results)
    return [(statement, statement.check(summary)) for statement in STATEMENTS]


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "The naive estimator has converged after 3e5 clicks.",
        f"from {SETTLED:g} clicks a query on it gains at most {SAME:g}",
        naive_settled,
    ),
    Statement(
        "IPS improves over the naive estimator.",
        "its mean over clicks is higher in every setting",
        above("ips", "naive"),
    ),
    Statement(
        "Bayes-IPS improves over the naive estimator.",
        "its mean over clicks is higher in every setting",
        above("bayes-ips", "naive"),
    ),
    Statement(
        "Bayes-IPS consistently outperforms IPS.",
        "its mean over clicks is higher in every setting",
        above("bayes-ips", "ips"),
    ),
    Statement(
        "A sizable gap remains between full information and Bayes-IPS everywhere.",
        f"at the most clicks it is above {SAME:g} in every setting",
        bayes_gap,
    ),
    Statement(
        "Affine approximates full information when position bias is mild (eta = 1).",
        f"at the most clicks the gap is at most {NEAR:g}",
        affine_near,
    ),
    Statement(
        "Affine has not converged under extreme position bias (eta = 2).",
        f"at the most clicks it is more than {SAME:g} below full information",
        affine_unfinished,
    ),
    Statement(
        "Affine outperforms the other estimators beyond 1e6 clicks.",
        f"it is above each of them wherever there are more than {MANY:g} clicks a "
        "query",
        affine_best,
    ),
    Statement(
        "These improvements at the most clicks are significant (p <= 0.001; 0.002 on "
        "MSLR with eta = 1 and eps-_1 = 0.35).",
        "Student's t-test over runs, against each of the others",
        significant,
    ),
    Statement(
        "At few clicks affine is similar to the others or slightly lower.",
        f"at the fewest clicks it is at most {SLIGHT:g} below and {SAME:g} above the "
        "best other",
        affine_few,
    ),
    Statement(
        "Soft-min-max outperforms the other activations at every number of clicks.",
        "it is above both in every setting and at every number of clicks",
        soft_min_max_best,
    ),
    Statement(
        "Soft-min-max is close to the true values after 1e6 clicks.",
        f"the gap is at most {NEAR:g} wherever there are more than {MANY:g} clicks a "
        "query",
        soft_min_max_close,
    ),
    Statement(
        "Softmax is decent with many clicks, and handles few less well.",
        f"its gap to true values is at most {SLIGHT:g} at the most clicks, and wider "
        "at the fewest",
        softmax_decent,
    ),
    Statement(
        "Sigmoid performs poorest.",
        "its mean over clicks is below both others in every setting",
        sigmoid_poorest,
    ),
    Statement(
        "Soft-min-max underestimates alpha, except at rank 1.",
        "mean relative error at ranks 2 to 10 below 0 in every setting",
        alpha_off("soft-min-max", -1),
    ),
    Statement(
        "Sigmoid underestimates alpha, except at rank 1.",
        "mean relative error at ranks 2 to 10 below 0 in every setting",
        alpha_off("sigmoid", -1),
    ),
    Statement(
        "Softmax overestimates alpha, except at rank 1.",
        "mean relative error at ranks 2 to 10 above 0 in every setting",
        alpha_off("softmax", +1),
    ),
    Statement(
        "Soft-min-max has accurate estimates of beta.",
        f"mean absolute error at most {ACCURATE:g} in every setting",
        beta_accurate("soft-min-max"),
    ),
    Statement(
        "Softmax has accurate estimates of beta.",
        f"mean absolute error at most {ACCURATE:g} in every setting",
        beta_accurate("softmax"),
    ),
    Statement(
        "Sigmoid underestimates beta.",
        "mean relative error below 0 in every setting",
        beta_low,
    ),
    Statement(
        "Results are consistent across values of eps-_1 (mentioned, not shown).",
        "affine is above the others at the most clicks for values that are not .35 "
        "or .65",
        consistent,
    ),
    Statement(
        "Clipping may help affine at few clicks (suspected, not shown).",
        "clipped is above unclipped at the fewest clicks in every setting",
        clipping_helps,
    ),
)
