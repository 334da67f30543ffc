"""RoCE v2 frames read by the specification, slowly: pcapng blocks, headers by opcode, both sums.

InfiniBand Architecture Specification, volume 1: table 38 (opcodes and their headers), 9.2 to 9.6,
and annex A17.  The CRC goes bit by bit, as 7.8 has it.
"""

RETH = (("va", 8), ("r_key", 4), ("dma_length", 4))
DETH = (("q_key", 4), ("reserved", 1), ("source_qp", 3))
AETH = (("syndrome", 1), ("msn", 3))
ATOMIC = (("va", 8), ("r_key", 4), ("swap_add", 8), ("compare", 8))
ATOMIC_ACK = (("original", 8),)
IMM, IETH, XRC = (("immediate", 4),), (("invalidates", 4),), (("reserved", 1), ("srq", 3))
OF_RELIABLE = {
    0x00: ("SEND First", ()),
    0x01: ("SEND Middle", ()),
    0x02: ("SEND Last", ()),
    0x03: ("SEND Last with Immediate", IMM),
    0x04: ("SEND Only", ()),
    0x05: ("SEND Only with Immediate", IMM),
    0x06: ("RDMA WRITE First", RETH),
    0x07: ("RDMA WRITE Middle", ()),
    0x08: ("RDMA WRITE Last", ()),
    0x09: ("RDMA WRITE Last with Immediate", IMM),
    0x0A: ("RDMA WRITE Only", RETH),
    0x0B: ("RDMA WRITE Only with Immediate", RETH + IMM),
    0x0C: ("RDMA READ Request", RETH),
    0x0D: ("RDMA READ response First", AETH),
    0x0E: ("RDMA READ response Middle", ()),
    0x0F: ("RDMA READ response Last", AETH),
    0x10: ("RDMA READ response Only", AETH),
    0x11: ("Acknowledge", AETH),
    0x12: ("ATOMIC Acknowledge", AETH + ATOMIC_ACK),
    0x13: ("CmpSwap", ATOMIC),
    0x14: ("FetchAdd", ATOMIC),
    0x16: ("SEND Last with Invalidate", IETH),
    0x17: ("SEND Only with Invalidate", IETH),
}
OF_DATAGRAMS = {0x04: ("SEND Only", DETH), 0x05: ("SEND Only with Immediate", DETH + IMM)}
TRANSPORTS = {0x00: "RC", 0x20: "UC", 0x60: "UD", 0xA0: "XRC"}
ANSWERS = range(0x0D, 0x13)


def number(data):
    return int.from_bytes(data, "big")


def crc(data):
    """The CRC-32 of Ethernet, of a message of bits, lowest of each byte first."""
    register = 0xFFFFFFFF
    for byte in data:
        for place in range(8):
            bit = (byte >> place) & 1
            register = register >> 1 ^ (0xEDB88320 if (register ^ bit) & 1 else 0)
    return (register ^ 0xFFFFFFFF).to_bytes(4, "little")


def invariant(frame):
    """The invariant CRC of a frame, of which the last four bytes do not count."""
    data = bytearray(frame[14:-4])
    if data[0] >> 4 == 4:
        udp = 20
        for place in (1, 8, 10, 11):  # type of service, time to live, checksum
            data[place] = 0xFF
    else:
        udp = 40
        data[0] = 0x6F  # class of traffic and flow label, behind the version
        for place in (1, 2, 3, 7):  # and the hop limit
            data[place] = 0xFF
    for place in (udp + 6, udp + 7, udp + 12):  # UDP's checksum; a reserved byte of the BTH
        data[place] = 0xFF
    return crc(b"\xff" * 8 + data)


def read(frame):
    """A frame's fields by name; fails where it breaks a rule of its format."""
    assert frame[12:14] == (b"\x08\x00" if frame[14] >> 4 == 4 else b"\x86\xdd")
    ip = frame[14:]
    if ip[0] >> 4 == 4:
        assert ip[0] == 0x45
        assert ip[9] == 17
        assert number(ip[2:4]) == len(ip)
        words = sum(number(ip[at : at + 2]) for at in range(0, 20, 2))
        assert (words & 0xFFFF) + (words >> 16) == 0xFFFF
        source, destination, udp = ip[12:16], ip[16:20], ip[20:]
    else:
        assert ip[6] == 17
        assert number(ip[4:6]) == len(ip) - 40
        source, destination, udp = ip[8:24], ip[24:40], ip[40:]
    assert number(udp[2:4]) == 4791
    assert number(udp[4:6]) == len(udp)
    assert number(udp[0:2]) >= 0xC000
    bth, rest = udp[8:20], udp[20:-4]
    assert len(rest) % 4 == 0
    assert bth[1] & 0x0F == 0  # the version of the header
    assert number(bth[2:4]) == 0xFFFF
    assert udp[-4:] == invariant(frame)
    transport = TRANSPORTS[bth[0] & 0xE0]
    operation = bth[0] & 0x1F
    name, headers = (OF_DATAGRAMS if transport == "UD" else OF_RELIABLE)[operation]
    if transport == "XRC" and operation not in ANSWERS:
        headers = XRC + headers
    found = {
        "source": source,
        "destination": destination,
        "opcode": f"{transport} {name}",
        "solicited": bth[1] >> 7,
        "qp": number(bth[5:8]),
        "asks": bth[8] >> 7,
        "psn": number(bth[9:12]),
    }
    for field, size in headers:
        found[field], rest = number(rest[:size]), rest[size:]
    pad = bth[1] >> 4 & 3
    assert rest[len(rest) - pad :] == bytes(pad)
    return found | {"payload": bytes(rest[: len(rest) - pad])}


def blocks(data):
    """Kind and body of each block of a pcapng file, written on a little-endian machine."""
    while data:
        kind, size = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4))
        assert size % 4 == 0
        assert int.from_bytes(data[size - 4 : size], "little") == size
        yield kind, data[8 : size - 4]
        data = data[size:]


def captured(data):
    """Interface, nanoseconds and fields of each frame of such a file."""
    found = []
    for kind, body in blocks(data):
        if kind == 6:
            interface, high, low, size, whole = (
                int.from_bytes(body[at : at + 4], "little") for at in range(0, 20, 4)
            )
            assert size == whole
            found.append((interface, high << 32 | low, read(body[20 : 20 + size])))
    times = [time for _, time, _ in found]
    assert times == sorted(times)
    return found
