"""Every count of translation, and where it is kept while kernels run."""

from __future__ import annotations

import numpy as np

# In the order in which people read them; ``docs/counts.md`` says what each one means.
COUNT_NAMES = (
    "requests",
    "lookups",
    "lookups_send",
    "lookups_receive",
    "ni_misses",
    "ni_misses_send",
    "ni_misses_receive",
    "ni_misses_compulsory",
    "ni_misses_send_compulsory",
    "ni_misses_receive_compulsory",
    "ni_misses_noncompulsory",
    "ni_misses_invalidated",
    "ni_misses_capacity",
    "ni_misses_conflict",
    "check_misses",
    "pins",
    "unpins",
    "pin_calls",
    "unpin_calls",
    "interrupts",
    "entries_fetched",
    "victim_hits",
    "further_ways",
    "dropped",
    "rejected",
    "rejected_unregistered",
    "rejected_rights",
    "rejected_deregistered",
    "bytes_copied",
    "peak_pinned_pages",
    "mtt_l0_hits",
    "mtt_l0_misses",
    "mtt_l1_hits",
    "mtt_l1_misses",
    "mpt_lookups",
    "mpt_l0_hits",
    "mpt_l0_misses",
    "mpt_l1_hits",
    "mpt_l1_misses",
    "indirect_lookups",
    "icm_fetches",
    "regions",
    "mtt_entries",
    "icm_bytes",
    "entries_invalidated",
)
# What ``--no-kinds`` leaves unknown.
KIND_NAMES = ("ni_misses_invalidated", "ni_misses_capacity", "ni_misses_conflict")

# ``pinned_pages`` is what is pinned now; its peak is counted.
COUNTS = np.dtype([(name, "i8") for name in (*COUNT_NAMES, "pinned_pages")], align=True)
