"""Amazon, by name."""
