"""The timeline: lanes, and tiles of their events at any zoom."""
