"""The data of each view, ready to draw."""
