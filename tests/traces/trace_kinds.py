"""Small traces of other tools, by hand: good as they are, and bad with a line more."""

import struct

LACKEY = """\
==123== Lackey, an example Valgrind tool
==123==
I  04000c10,3
 S 1ffefff7e8,8
I  04000c13,5
 L 04025e70,16
 M 1ffefff000,4

==123== Counted 0 calls
"""
CSV = """\
time_ns,node,pid,op,address,length,peer,buffer,note
0,0,7,send,0x7f0000001000,64,1,,"a, b"
10,1,8,recv,4096,100,,3,c
"""
LIBCACHESIM = "time,object,size,next\n1.5,3,100,2\n2,4,200,-1\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
RING = """\
// two ranks that hand a byte on
num_ranks 2

rank 0 { // the first
l1: calc 100 cpu 0
/* it sends
   and waits */ l2: send 10b to 1 tag 7 cpu 0 nic 0
l2 requires l1
l3: recv 20b from -1 tag 9
l3 irequires l2
}
rank 1 {
first: recv 10b from 0 tag 7
calc 5
second: send 20b to 0 tag 9
second requires first
}
"""


def records(*rows_):
    return b"".join(struct.pack("<IQIq", *row) for row in rows_)
