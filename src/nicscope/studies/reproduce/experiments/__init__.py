"""One module per published table, figure or claim; see ``registry``."""
