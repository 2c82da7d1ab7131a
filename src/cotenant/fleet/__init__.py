"""Questions over many nodes: a session of each in tasks, then a last step over their rows."""
