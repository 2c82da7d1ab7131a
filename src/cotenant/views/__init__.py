"""How it is shown: no SQL in here, no arithmetic on events."""
