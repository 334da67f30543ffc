"""VI-MSG, the messaging on a VIA interface: what it keeps, and its rules as steps over that.

A driver asks what to do next (``admit``, ``next_fragment``, ``take_frame``, ``match``) and lets
it take its time.  Source: EDT, 6; VIA Specification 1.0.
"""
