"""Stores of a GPU host that exists only in virtual time: the stand-in's device model, driven by
processes that cost nothing, and rows as a recording would have written them."""
