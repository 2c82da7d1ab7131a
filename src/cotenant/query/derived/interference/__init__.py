"""How much each tenant slows each other one on a GPU, and why."""
