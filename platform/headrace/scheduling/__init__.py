"""When tables that no flow advances are refreshed, and by whom. No Spark import."""
