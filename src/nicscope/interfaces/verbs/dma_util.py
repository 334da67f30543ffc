"""Barriers and doorbells of the makers' own modules, of which there are none."""
