"""Recording a real program's socket buffers with ptrace, and a seccomp filter if it starts here.

``record.record`` and ``record.record_running`` are the ways in.  From the kernel upwards: ``calls``
says which system calls move bytes and makes the filter by which the kernel stops a program at them,
``ptrace`` talks to stopped threads, ``signals`` waits for signals and passes them on,
``permission`` says why a process may not be traced, ``launch`` starts a program and traces it to
its end, ``attach`` traces a running one for a while.  Both hand each stop to ``tracer``, which
makes rows of calls: ``descriptors`` and ``connections`` tell its socket, ``rows`` finds the buffers
and brings them into the order of issue, ``observed`` counts, ``result`` writes.
"""
