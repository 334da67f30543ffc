"""One function for each table, figure and claim that is reproduced, in files by subject."""

FILES: dict[str, dict[str, tuple[str, ...]]] = {  # paper: file: items
    "edt": {
        "latencies": ("figure8", "figure9", "dma_rate", "contention"),
        "machine": ("bus_transactions", "crossover", "ni_memory"),
    },
    "mini": {
        "memory": ("extrapolation", "figure3", "node_memory"),
        "misses": ("figure4", "miss_penalty"),
    },
    "today": {
        "caches": ("t10",),
        "regions": ("t6", "t19"),
        "posting": ("t16", "t21"),
        "registering": ("t11", "t12"),
        "connections": ("t4", "t5", "t18"),
        "descriptors": ("t13", "t14", "t15", "t17"),
    },
    "trapeze": {
        "measures": ("figure6", "headline", "table1"),
        "sharing": ("figure7", "trunk"),
        "transfers": ("figure1", "figure3", "figure4", "figure5"),
    },
    "unet_mm": {
        "pinning": ("pinned_memory",),
        "pricing": ("table1",),
        "running": ("simulated_table1",),
        "sockets": ("figure3_sockets",),
        "split_c": ("figure3",),
    },
    "utlb": {
        "invariants": ("invariants",),
        "pricing": ("fast_path", "table1", "table2", "table6"),
        "running": ("simulated_fast_path", "simulated_table1", "simulated_table2"),
    },
}
