"""Work on the nodes of a trace by several processes, here or on a Dask cluster."""
