"""What programs say and hold while networks and nodes fail."""


def word(number, salt=0):
    """A message that says which it is."""
    return (number * 0x9E3779B97F4A7C15 + salt & 2**64 - 1).to_bytes(8, "little") * 2


def held(cluster):
    """Uses of an exported page that its library has registered."""
    return int(cluster.design.name in ("utlb", "vmmc-static", "mini"))


async def hold(process, window):
    """Have the library pin what is exported, where that is its task, for good."""
    from nicscope.drivers.simulate.records import REGISTER

    ended = await process._sim_process.ask(
        REGISTER, peer=process.port, address=window.address, payload=len(window)
    )
    assert ended.address == 0
