"""Collectives on every interface: how long they take, and whether their results are right."""
