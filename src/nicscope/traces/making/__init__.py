"""Request traces that nobody recorded: drawn by a seed, from pools, sizes and a popularity."""
