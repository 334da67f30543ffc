"""``nicscope flow``: where every microsecond of a packet's path goes.

``question`` is what is asked, ``report`` what is answered; between them are functions of the log
and the messages alone: ``parts``, ``transfers``, ``engines``, ``bandwidth``.
"""
