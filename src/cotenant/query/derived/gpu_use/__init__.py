"""GPU time, work and shares of each tenant on each GPU."""
