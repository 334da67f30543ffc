"""The host's half: user library, what its kernel pins and unpins, its tables; no time passes."""
