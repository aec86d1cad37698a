"""Making a page of the documentation from a run: text, tables and plots, nothing typed by hand."""

from bench.publishing.page import CASES, FOLDER, publish

__all__ = ["CASES", "FOLDER", "publish"]
