"""From topics into tables: the rules without Spark, then the whole on a real Spark."""
