"""Firmware of a NIC that serves ports: arbitration, transmission, placement, completion."""
