"""One file per translation scheme: how its firmware and host answer a stream of requests."""
