"""Figure 5 of the miNI paper: the sweep of its cache."""
