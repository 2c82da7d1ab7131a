"""Immutable Parquet segments, and the manifest that names the current ones."""
