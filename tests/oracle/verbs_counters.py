"""What a device's counters should say, told from records of packets and from completions alone.

Each is counted as Linux and the makers' pages define it: Documentation/ABI/stable/sysfs-class-
infiniband for those of the port, and NVIDIA's "Understanding mlx5 counters" for the others.
"""

HEADER = 128  # bytes of a control message (Trapeze, 2.1)
REQUESTS = (1, 2, 3)  # kinds of packets: a message, a remote write, a question
UNHEARD = ("lost", "cut_off", "overtaken")  # what the network keeps never came, or comes later
FLUSHED, TOO_LONG, REFUSED, INVALID, UNANSWERED, UNREADY = 5, 1, 10, 9, 12, 13


def of_packets(made, came, *, reliable=True):
    """``made``: why, kind, bytes; ``came``: what became of it, kind, bytes."""
    left = [each for each in made if each[0] != "copies"]
    heard = [each for each in came if each[0] not in UNHEARD]
    fates = [fate for fate, _, _ in came]
    return {
        "port_xmit_packets": len(left),
        "port_xmit_data": (HEADER * len(left) + sum(size for _, _, size in left)) // 4,
        "port_rcv_packets": len(heard),
        "port_rcv_data": (HEADER * len(heard) + sum(size for _, _, size in heard)) // 4,
        "port_rcv_errors": fates.count("corrupted"),
        "rx_icrc_encapsulated": fates.count("corrupted"),
        "out_of_sequence": fates.count("out_of_turn"),
        "out_of_buffer": fates.count("no_buffer"),
        "duplicate_request": sum(
            reliable and fate == "duplicates" and kind in REQUESTS for fate, kind, _ in came
        ),
    }


def of_completions(sent, received):
    """Statuses of requests and of receives, as the verbs number them."""
    return {
        "req_cqe_error": sum(status != 0 for status in sent),
        "req_cqe_flush_error": sent.count(FLUSHED),
        "req_remote_access_errors": sent.count(REFUSED),
        "req_remote_invalid_request": sent.count(INVALID),
        "req_transport_retries_exceeded": sent.count(UNANSWERED),
        "req_rnr_retries_exceeded": sent.count(UNREADY),
        "resp_cqe_error": sum(status != 0 for status in received),
        "resp_cqe_flush_error": received.count(FLUSHED),
        "resp_local_length_error": received.count(TOO_LONG),
    }
