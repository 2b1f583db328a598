"""Results for people: the plot, the page, the sentences."""

from icvi_jax.report.result import About, Result, distress_score, worst_first

__all__ = ["About", "Result", "distress_score", "worst_first"]
