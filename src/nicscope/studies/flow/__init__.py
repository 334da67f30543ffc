"""Where every microsecond of a packet's way goes: what ``nicscope flow`` asks and reports.

``question`` is what is asked, ``report`` what is answered; between them are functions of the log
and the messages alone: ``parts``, ``transfers``, ``engines``, ``bandwidth``.
"""
