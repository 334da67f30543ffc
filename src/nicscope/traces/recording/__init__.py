"""Recording a real program's socket buffers with ptrace, and a seccomp filter if it starts here.

``record.record`` and ``record.record_running`` are the ways in.  From the kernel upwards:
``ptrace`` says which system calls move bytes, makes the filter by which the kernel stops a program
at them, and talks to stopped threads, ``record`` starts a program or attaches to a running one, and
hands each stop to ``tracer``, which makes rows of calls in the order of issue; ``connections``
tells their sockets and counts, ``result`` writes.
"""
