"""The catalogue: what each kernel, copy or graph takes alone, and how that is known."""
