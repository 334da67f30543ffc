"""Virtual time: nodes, their NICs and the network between them, to the picosecond.

``docs/virtual-time.md`` is the contract; ``script.simulate_script`` is the way in for traffic
without decisions.
"""
