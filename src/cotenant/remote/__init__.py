"""Stores elsewhere: what a node ships to them, and what a reader fetches."""
