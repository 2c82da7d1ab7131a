"""Tenants' files, read where they can do no harm."""
