"""What of the papers' results comes out again: published number against reproduced number.

``verdict`` reads what should come out (the catalog's ``published`` shelf, frozen before any code
that meets it) and holds what does; ``experiments`` find that out; ``harness`` runs and judges.
"""
