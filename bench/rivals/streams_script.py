"""Streams into Delta tables on another Spark than the installed one; answers each line when it is done.

Arguments: the folder of that pyspark, and the jars of delta-spark. A line is `{"parquet": FOLDER}`, which
delta-spark writes, `{"url": STORE}`, whose topic we write, or `{}`, which asks for the version.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(packages: str, jars: str) -> None:
    """Answer until there is no line any more."""
    sys.path[:0] = [packages, str(ROOT)]
    os.environ["PYTHONPATH"] = packages  # for Spark's workers
    from bench.cases.lake_write import into, parquet, topic
    from bench.lakes import local_session

    spark = local_session(
        {
            "spark.jars": jars,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    )
    for line in sys.stdin:
        asked = json.loads(line)
        if "parquet" in asked:
            into(parquet(spark, asked["parquet"]), "delta")
        if "url" in asked:
            into(topic(spark, asked["url"]), "penstock-delta")
        print(json.dumps({"spark": spark.version}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
