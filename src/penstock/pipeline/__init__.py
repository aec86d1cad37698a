"""Pipelines on Spark: topics as a source, lakehouse tables as a sink, exactly once.

Thin and picklable: Spark carries what is here to its workers. `register(spark)` makes the formats `penstock`
and `penstock-delta` known to a session of your own; `spark_session()` makes a session that has them.
"""
