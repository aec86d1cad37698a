"""Making pages of the documentation from runs: text, tables and plots, nothing typed by hand."""

from bench.publishing import before_after
from bench.publishing.before_after import publish_comparison
from bench.publishing.page import CASES, FOLDER, publish

__all__ = ["CASES", "FOLDER", "before_after", "publish", "publish_comparison"]
