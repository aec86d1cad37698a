"""Typed rows: the fields of event classes as columns, decoded by Spark's own functions.

`shapes.py` turns a class into a shape, `expressions.py` a shape into Spark expressions, `decoding.py` puts
both on a DataFrame. What does not fit is told in a column, row by row; nothing becomes NULL in silence.
"""
