"""How values are written: as SQL literals, as shell words, as times that people type."""
