"""miNI: registered communication buffers, remote writes and reads, handles looked up on demand."""
