"""The package of an earlier commit beside the present one: the same measurements, by turns."""

from bench.beside.comparing import compare
from bench.beside.trees import Tree, tree_of
from bench.beside.values import CaseComparison, Comparison, Pair

__all__ = ["CaseComparison", "Comparison", "Pair", "Tree", "compare", "tree_of"]
