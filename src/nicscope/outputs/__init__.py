"""Atomic outputs: complete or absent, replacing nothing but plain files.

A result grows where nobody sees it and gets its name when it is complete and on disk; an error,
Ctrl-C, SIGTERM or SIGHUP on the way leaves what was there before.  Devices, FIFOs, sockets,
terminals and open descriptors are written to as they are.  ``docs/outputs.md`` says what a user
may rely on.
"""

from nicscope.outputs.file import check_output, scratch_file, whole_file
from nicscope.outputs.folder import OutputFolder, whole_folder
from nicscope.outputs.target import STDOUT, Descriptor, ReaderGone, Sink, Target, target_of

__all__ = [
    "STDOUT",
    "Descriptor",
    "OutputFolder",
    "ReaderGone",
    "Sink",
    "Target",
    "check_output",
    "scratch_file",
    "target_of",
    "whole_file",
    "whole_folder",
]
