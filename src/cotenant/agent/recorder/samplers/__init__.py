"""Samplers: tables that are written once a second."""
