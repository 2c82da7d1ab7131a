"""Questions over many nodes on Spark, with workers that are processes of their own."""
