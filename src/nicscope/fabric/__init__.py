"""The network between NICs: links, switches, the paths over them."""
