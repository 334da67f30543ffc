"""An open NIC: every call of VIPL, on a machine whose NIC serves VIs as ports.

``VipPostSend`` is ``post_send``, and so on.
"""

from __future__ import annotations

from nicscope.interfaces.via.library import Library
from nicscope.interfaces.via.managing import Management
from nicscope.interfaces.via.notifying import Notifications
from nicscope.interfaces.via.peering import Peers
from nicscope.interfaces.via.posting import Posting


class Nic(Posting, Notifications, Peers, Management, Library):
    """An open NIC, as one program on its node has it."""
