"""State of each GPU process: kernel names, graphs, devices, communicators."""
