"""Shared memory on simulated machines: all communication is bytes that NICs deliver.

The protocol is that of ``apps.svm``; here is what carries it.  On each node one program of the
cluster holds the node's copies of shared memory in its simulated memory, and runs the node's
processes as tasks.  Letters between nodes, with locks, barriers and write notices in them, go by
remote writes (VMMC, miNI) or by Active Messages (U-Net); pages and diffs by remote memory or as
letters.  Between copies on the same node everything goes by its memory.
"""
