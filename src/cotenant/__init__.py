"""On a shared GPU host, ask which tenant did what."""

__version__ = "0.1.0"
