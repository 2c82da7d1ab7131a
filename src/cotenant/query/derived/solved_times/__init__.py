"""Device time per kernel, solved from the spans that contain it."""
