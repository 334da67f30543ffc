"""Data, not code: designs and platforms as TOML; read by ``nicscope.config``."""
