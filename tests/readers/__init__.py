"""Stores read by other programs, of the versions that people have."""
