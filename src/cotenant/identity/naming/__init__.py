"""Asking for names: what to ask next, whom, and what the answers hold."""
