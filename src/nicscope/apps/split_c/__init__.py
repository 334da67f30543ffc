"""The programs of U-Net/MM's section 6.2, on Active Messages.

A blocked matrix multiply, a radix sort, and a sample sort by small messages or by large ones.
Each is a coroutine of one process on each node.  It returns what it made, as it then lies in the
process's memory; whoever runs it checks that.  What a CPU computes takes no time: only messages
and the copies of Active Messages do.
"""
