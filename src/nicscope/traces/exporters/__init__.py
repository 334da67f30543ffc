"""Traces for other programs: one file per format, each a context manager with ``append``."""
