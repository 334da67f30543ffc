"""Records of a simulation: kinds of pending events, states of engines, operations, layouts."""

import numpy as np

from nicscope.config.design import CELL_WORDS, DELIVERY_COSTS

# Kinds of pending things; their order is that of equal times (docs/virtual-time.md, Order).
SEND_READY = 0
RECEIVE_READY = 1
CPU = 2
PCI = 3
LINK = 4
PROCESSOR = 5
WATCHDOG = 6
TIMER = 7
KINDS = 8  # a power of two
# Those of a node with a bus stand in a tree of their own, so that others pay for none of them: the
# first of each node comes before all of the above at the same time, the others behind them.
BUS = 0  # a transaction is ordered
ENGINE = 1  # the NIC's second engine goes on
REPORTING = 2  # its write of a completion does, for which its processor need not wait
BUS_KINDS = 4  # a power of two

# What a CPU does.
IDLE = 0
CALLING = 1
WRITING = 2
READING = 3
COPYING = 4
COMPUTING = 5
POSTING = 6  # a descriptor or a buffer to a port
POLLING = 7  # a report of a port
INTERRUPTED = 8  # by the NIC, while nothing else was to do
IN_TRAP = 9  # serves a port, where the NIC cannot
IN_MISS = 10  # and has to have a page pinned for it
ACCESSING = 11  # memory, through its caches or past them

# What a PCI engine does.
PCI_IDLE = 0
PCI_READS = 1  # hostTx
PCI_WRITES = 2  # hostRcv
PCI_TABLE = 3  # the NIC reads entries of a translation table
PCI_QUEUE = 4  # the other end of what the CPU writes to, or reads from, a cacheable queue
PCI_DESCRIPTOR = 5  # the NIC reads a descriptor

# What a link transmit engine does.
LINK_IDLE = 0
STARTING = 1
QUEUED = 2  # for a link of its path
HEADING = 3  # the packet's head is on its way
STALLED = 4  # the receiver has posted no receive
FLOWING = 5

NO_PROCESS = -1

# What a process of a program waits for.
NO_OPERATION = 0
SEND = 1
RECEIVE = 2
COMPUTE = 3  # the CPU, for a time
SLEEP = 4  # a time
COPY = 5  # the CPU, for a copy in memory
POST = 6  # room for a descriptor at a port, and that its pages are pinned
PROVIDE = 7  # room for a buffer in the free queue of a port
REPORT = 8  # a report at a port
REGISTER = 9  # that pages are pinned, and stay so until they are given up
GIVE_UP = 10
UNPIN = 11  # that the library unpins pages that it names
TRAP = 12  # that the kernel has served the process's port, after a POST or PROVIDE
AWAIT_SEND = 13  # that the ring's entry of a message is free again: the NIC has done with it
ACCESS = 14  # the CPU, for loads and stores of a host that has caches
AWAIT_QUEUE = 15  # an entry of a completion queue
# Of a process that follows a program trace: a report of either ring, or word from its own node.
ANY_REPORT = 16

COSTS = np.dtype([(name, "i8") for name in (*DELIVERY_COSTS, *CELL_WORDS)], align=True)

NODE = np.dtype(
    [
        ("task", "i8"),  # the firmware's, or NO_TASK
        ("task_since", "i8"),
        ("task_packet", "i8"),  # the packet that the task was begun for, as its side counts
        ("cpu", "i8"),
        ("cpu_since", "i8"),
        ("interrupted", "i8"),  # 1: that is over but for interrupts that came meanwhile
        ("pci_starts", "i8"),  # ps per byte of a burst's transfer: the starts of its packets
        ("pci", "i8"),
        ("fetching", "i8"),  # the packet that hostTx is moving, or -1
        ("link", "i8"),
        ("link_control", "i8"),  # 1: netTx moves a control message
        ("link_begun", "i8"),
        ("link_bytes", "i8"),
        ("link_framing", "i8"),  # bytes of padding and trailer behind these
        ("cells", "i8"),  # that netTx has begun to send
        ("receive_begun", "i8"),  # when netRcv was posted
        ("source", "i8"),  # whose packet has a whole path to this node, or -1
        ("cpu_process", "i8"),  # whose operation that is; -1: the script's
        # of a host with two processors: what the other one does (``two_processors``)
        ("processors", "i8"),
        ("other", "i8"),
        ("other_since", "i8"),
        ("other_process", "i8"),
        ("other_interrupted", "i8"),
        ("other_stolen", "i8"),
        ("other_until", "i8"),  # ps, or NEVER
        # script, or processes first_process up to last_process
        ("first_process", "i8"),
        ("last_process", "i8"),
        ("run", "i8"),
        ("last_run", "i8"),
        ("run_left", "i8"),
        ("not_before", "i8"),
        # another master at the host's bus holds it so long (ps) of every so many; 0: there is none
        ("held", "i8"),
        ("held_every", "i8"),
        # for the observer
        ("aborted", "i8"),
        ("unheard", "i8"),  # of these, whose header had not come yet
        # of what came here, where no port minds that
        ("lost", "i8"),
        ("corrupted", "i8"),
        ("cut_off", "i8"),
        ("written_bytes", "i8"),  # payload of what the CPU has put into the send ring
        ("received", "i8"),
        ("received_bytes", "i8"),
        ("pci_busy", "i8"),  # ps
        ("link_busy", "i8"),
        ("processor_busy", "i8"),
        ("cpu_busy", "i8"),
    ],
    align=True,
)

RUN = np.dtype(
    [("destination", "i8"), ("payload", "i8"), ("count", "i8"), ("gap", "i8")], align=True
)

# One process of a program, and the one operation that it may wait for; also what crosses from
# Python (an operation that begins) and back (one that has ended).
OPERATION = np.dtype(
    [
        ("process", "i8"),
        ("operation", "i8"),
        # ps: asked for at, set when it is taken; ended at.  Before it is taken how many follow it.
        ("time", "i8"),
        ("node", "i8"),  # the process's own
        ("peer", "i8"),  # destination; sender
        ("packet", "i8"),  # number by sender
        ("payload", "i8"),  # bytes; of a copy too
        ("tag", "i8"),
        # of the payload in memory; of REPORT and AWAIT_QUEUE when it is given up (ps), or 0
        ("address", "i8"),
        ("own", "i8"),  # 1: received into a buffer off the receive ring
        ("duration", "i8"),  # ps; of what is waited for at a port 1: it was there when it asked
    ],
    align=True,
)

# Of one process: which operations of ``chains`` are still to begin.
# Of a row for operations: its chain, and whose row it is, if it is a task's.
CHAINED = np.dtype([("last", "i8"), ("next", "i8"), ("main", "i8")], align=True)
CHAIN = 8  # operations that a process may ask for at once

# One thing that a scripted process does: it posts a descriptor, or waits for what comes; or one row
# of a program trace.
ROW = np.dtype(
    [
        ("port", "i8"),
        ("operation", "i8"),  # POST or REPORT; of a program trace as ``traced.state`` has it
        ("own", "i8"),  # as a program would give it with the operation
        ("name", "i8"),  # tag or import; lock or barrier
        ("offset", "i8"),
        ("address", "i8"),
        ("length", "i8"),
        ("not_before", "i8"),  # ps; of a program trace: the CPU's part
        # Of a program trace.
        ("process", "i8"),  # whose
        ("peer", "i8"),  # node or process at the other end
    ],
    align=True,
)
# Of one process: the rows next up to last are still to do; none: it is a program's.
SCRIPTED = np.dtype(
    [
        ("next", "i8"),
        ("last", "i8"),
        ("depth", "i8"),  # descriptors that may be outstanding
        ("outstanding", "i8"),
        ("done", "i8"),  # rows ever
        ("failed", "i8"),  # descriptors that did not end well
        ("latency", "i8"),  # ps from post to report, summed; with a depth of 1
        ("posted_at", "i8"),
        ("port", "i8"),  # of one that follows a program trace
    ],
    align=True,
)

# What advance may want, beside the room of ``nic.ports.streams``.
PATHS = 1  # of pairs of nodes
FLIGHTS = 4  # room for packets in flight

TALLY = np.dtype(
    [
        ("messages", "i8"),
        ("log", "i8"),
        ("events", "i8"),
        ("now", "i8"),
        ("ended", "i8"),  # operations in ``inbox``
        ("due", "i8"),  # processes in ``due``
        ("until", "i8"),  # ps: nothing later is fired
        ("wants", "i8"),  # PATHS, ROOM, FLIGHTS: what to make before more is fired (``growth``)
        ("unfinished", "i8"),  # one more than the node whose next tasks wait for that, or 0
    ],
    align=True,
)
