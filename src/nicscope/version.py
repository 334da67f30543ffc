"""The version of nicscope, which reports and files name."""

__version__ = "0.1.0"
