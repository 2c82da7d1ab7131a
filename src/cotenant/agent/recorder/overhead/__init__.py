"""Cost control: the budget, and the control page that BPF programs read."""
