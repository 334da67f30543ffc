"""Tables 4, 5, 7 and 8 and Figures 7 and 8 of the UTLB paper."""
