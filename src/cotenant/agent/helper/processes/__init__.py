"""What is asked about processes that a probe reported: names, devices, memory."""
