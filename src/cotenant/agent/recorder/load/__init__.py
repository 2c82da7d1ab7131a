"""What recording may cost, and the page that tells programs."""
