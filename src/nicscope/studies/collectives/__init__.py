"""Collectives on every interface: how long they take, and whether what they give is right."""
