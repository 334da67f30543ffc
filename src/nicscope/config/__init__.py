"""Designs and platforms as data: read, checked, each number with its evidence."""
