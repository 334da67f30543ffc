"""What of the papers' results comes out again: published number against reproduced number.

``expectation`` reads what should come out (the catalog's ``published`` shelf, frozen before
any code that meets it); ``experiments/<paper>/<id>.py`` says what does come out; ``harness``
runs and judges; ``verdict`` is the result; ``markdown`` writes it down.
"""
