"""The commands as functions: values in, a result out that shows itself.

Each function is the whole of its command but for the words of a command line; ``nicscope`` has
them all.
"""
