"""How large the memory of a process is in worlds of ports, and what its pages are for."""

PAGE = 512
PAGES = 24  # of each process's memory, from address 0
EXPORTED = 8  # the first page that others may name, and how many they are
SHARED = 4
BUFFERS = 12  # the first page of receive buffers, and how many they are
PLACES = 12
