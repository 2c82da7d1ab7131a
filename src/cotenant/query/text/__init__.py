"""Values as text: SQL literals, shell words, times as people type them."""
