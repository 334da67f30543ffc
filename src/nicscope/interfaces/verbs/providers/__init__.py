"""Modules of makers, of whose devices there are none: their names can be imported."""
