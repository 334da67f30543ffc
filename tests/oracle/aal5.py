"""AAL5 by the book (ITU-T I.363.5): a PDU bit by bit, cut into cells and put together again."""

CELL, TRAILER = 48, 8


def crc(content):
    """CRC-32 of all bits, the highest of each byte first, register and result inverted."""
    register = 0xFFFFFFFF
    for byte in content:
        for place in range(7, -1, -1):
            top = register >> 31 ^ byte >> place & 1
            register = register << 1 & 0xFFFFFFFF
            if top:
                register ^= 0x04C11DB7
    return register ^ 0xFFFFFFFF


def cells_of(message):
    """The cells of ``message``: padded, with two spare bytes, its length and the CRC at the end."""
    pdu = message + bytes(-(len(message) + TRAILER) % CELL)
    pdu += bytes(2) + len(message).to_bytes(2, "big")
    pdu += crc(pdu).to_bytes(4, "big")
    return [pdu[at : at + CELL] for at in range(0, len(pdu), CELL)]


def message_of(cells):
    """What was sent in ``cells``; None if they are not all of it, or one is damaged."""
    pdu = b"".join(cells)
    if len(pdu) < CELL or crc(pdu[:-4]) != int.from_bytes(pdu[-4:], "big"):
        return None
    length = int.from_bytes(pdu[-6:-4], "big")
    return pdu[:length] if len(pdu) - CELL < length + TRAILER <= len(pdu) else None
