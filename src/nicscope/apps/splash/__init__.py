"""Programs of the SPLASH-2 class on shared memory, with checked results.

Each is written anew after the descriptions of Woo, Ohara, Torrie, Singh and Gupta (ISCA 1995), with
the data layout and the order of work of the original where that decides which pages cross the
network.  Inputs are generated from a seed.
"""
