"""Traces of other programs: one file per format, each a generator of checked-later batches."""
