"""Files of other profilers: what they measured, matched to what was recorded."""
