"""How much each tenant slows each other tenant on a GPU, and why."""
