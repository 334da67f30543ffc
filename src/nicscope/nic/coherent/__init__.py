"""A coherent network interface's own parts: tags, packet table, queues (``docs/coherence.md``)."""
