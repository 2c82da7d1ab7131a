"""The timeline: lanes, and tiles of what happened in them, at any zoom."""
