"""Typed rows: the fields of event classes as columns, decoded by Spark's own functions.

`classes.py` turns a class into a shape (`shapes.py`), `expressions.py` that into Spark expressions, and `decoding.py`
applies them to a DataFrame. A column names the fault of each row that does not fit; no value silently becomes NULL.
"""
