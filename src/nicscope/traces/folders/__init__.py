"""A folder of trace files that is one trace, however its rows are divided among the files.

The rows of a node come in the order of their times, then of the files' names, then of rows.
"""
