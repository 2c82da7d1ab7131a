"""The data of each view, ready to draw; no view writes SQL of its own."""
