"""What is known of each process that uses a GPU."""
