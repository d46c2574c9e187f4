"""Settings of a Spark that has few rows to do with: it begins sooner, and plans less."""

from __future__ import annotations

SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java. Most of what its second compiler would make is never used twice."""
SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SMALL_JAVA,
    # Nor are most of the classes that Spark would write and compile for each query.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # With so few rows there is nothing to adapt to, and each step of a query would be planned anew.
    "spark.sql.adaptive.enabled": "false",
}
