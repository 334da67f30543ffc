"""People at work on one machine: a shell, a web and a mail server, and the programs they use.

Real programs that talk over loopback, each receiving into pages that it has posted, as on U-Net.
``session`` runs them all; whoever records it sees what they ask of a network.
"""
