"""Processes that follow the rows of a program trace: what each may begin, and what it waits for.

Every process of the trace is one of the machine's.  Its rows compute on its CPU, post fetches and
stores at its port, or wait for others; which may begin is told by what has ended.  Messages, locks
and barriers go from process to process as small remote stores that notify, as programs send them.
"""
