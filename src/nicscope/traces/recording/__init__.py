"""Recording a real program's socket buffers with ptrace and a seccomp filter.

``record.record`` is the way in.  From the kernel upwards: ``calls`` says which system calls move
bytes, ``filter`` makes the kernel stop a program at them, ``ptrace`` talks to the stopped program,
``launch`` starts it, ``tracer`` follows it and its children, ``segments`` finds the buffers of a
call, ``rows`` brings what was seen into the order of issue, ``observed`` counts, ``signals``
passes signals on.
"""
