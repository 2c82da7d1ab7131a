"""How answers are shown; no SQL, no arithmetic on events."""
