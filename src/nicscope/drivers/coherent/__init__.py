"""Hosts with coherent caches and their interfaces: every way of moving a message between them.

``boundary`` is what layers above call; ``docs/coherence.md`` says what each mechanism does.
"""
