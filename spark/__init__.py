"""PySpark jobs: ordinary clients of topics and of the log's published format."""
