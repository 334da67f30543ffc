"""A host's caches, its memory and the snooping bus between them (``docs/coherence.md``)."""
