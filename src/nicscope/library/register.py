"""``nicscope register``: how long a pool of memory takes to register, and what shortens that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.errors import StudyError
from nicscope.inputs import read_whole
from nicscope.library.command import Option, Registering, Text, command, some_bytes

if TYPE_CHECKING:
    from nicscope.reports.register import ShownRegistrations

MOST_FILE = 1 << 26  # bytes of a list of regions
MOST_REGIONS = 1 << 24
_SWITCHES = {"no": False, "yes": True}
ORDERS = ("given", "ascending", "descending")


@command(
    "nicscope register 1TiB --nics 8 --threads 1,8 --touched no,yes",
    "nicscope register 500GiB --page 4K,2M --nics 8 --at-once no,yes --touched yes",
    "nicscope register --regions buffers.txt --order descending --costs efa-gpu",
    "nicscope register --regions tensors.csv --cache none,range --touched yes",
    out="Folder for results.json, registrations.parquet and figures.",
)
def register(
    repeat: list[str],
    /,
    byte_count: Annotated[
        Text, Option("BYTES", "Of the pool, such as 500GiB or 1TiB.", is_argument=True)
    ] = None,
    *,
    bytes_too: Annotated[Text, Option("BYTES", "The same, as an option.", ("--bytes",))] = None,
    page: Annotated[
        Text,
        Option(
            "BYTES,...",
            "The host's pages, and what an entry of a NIC maps.",
            ("--page-size", "--page"),
        ),
    ] = "4K,64K,2M,1G",
    regions: Annotated[
        Text,
        Option(
            "N|FILE", "Equal regions of the pool, or a file: a size a line, or bytes and address."
        ),
    ] = "1",
    order: Annotated[
        Text, Option("|".join(ORDERS), "In which a file's regions are registered.")
    ] = "given",
    nics: Annotated[Text, Option("N,...", "NICs at which all of it is registered.")] = "1",
    threads: Annotated[Text, Option("N,...", "Threads that touch and pin.")] = "1",
    at_once: Annotated[
        Text, Option("no|yes|no,yes", "Whether NICs are served at the same time.")
    ] = "no",
    touched: Annotated[
        Text, Option("no|yes|no,yes", "Whether the memory has been touched before.")
    ] = "no",
    cache: Annotated[
        Text,
        Option("none|exact|range,...", "What a library joins of a file's lines with addresses."),
    ] = "none",
    costs: Registering = "connectx",
) -> ShownRegistrations:
    """Show how long registering memory takes at RDMA NICs, by parts, and what shortens it."""
    from nicscope.config.rdma_costs import load_registration_costs
    from nicscope.reports.register import ShownRegistrations
    from nicscope.studies.registering import pools, register_all

    if None not in (byte_count, bytes_too):
        raise StudyError("BYTES and --bytes are the same; leave one of them out")
    size = byte_count or bytes_too
    lists = {each: _regions(size, regions, order, each) for each in cache.split(",")}
    ways = (
        [some_bytes("--page", each) for each in page.split(",")],
        [_number("--nics", each) for each in nics.split(",")],
        [_number("--threads", each) for each in threads.split(",")],
        [_switch("--at-once", each) for each in at_once.split(",")],
        [_switch("--touched", each) for each in touched.split(",")],
    )
    every = [pool for each, sizes in lists.items() for pool in pools(sizes, *ways, each)]
    return ShownRegistrations(register_all(every, load_registration_costs(costs), repeat))



def _number(option: str, text: str) -> int:
    if not text.isdecimal():
        raise StudyError(f"{option} must be whole numbers, got {text!r}")
    return int(text)


def _switch(option: str, text: str) -> bool:
    named = {"true": "yes", "false": "no"}.get(text, text)  # as Python's own are spelt
    if named not in _SWITCHES:
        raise StudyError(f"{option} must be no, yes, or no,yes; got {text!r}")
    return _SWITCHES[named]


def _regions(byte_count: str | None, regions: str, order: str, cache: str) -> list[int]:
    """Bytes of each region.  Errors: ``StudyError`` naming the line of a file that is no size."""
    if order not in ORDERS:
        raise StudyError(f"--order must be {', '.join(ORDERS)}; got {order!r}")
    if regions.isdecimal():
        if byte_count is None:
            raise StudyError("how much is registered? Give BYTES, or --regions FILE")
        if cache != "none":
            raise StudyError("--cache is of lines with addresses; give --regions FILE")
        return _equal(some_bytes("BYTES", byte_count), int(regions))
    if byte_count is not None:
        raise StudyError(f"{regions} says what is registered; leave {byte_count} out")
    from nicscope.studies.registering import read_regions, registered

    text = read_whole(regions, MOST_FILE, StudyError).decode(errors="replace")
    sizes = registered(read_regions(text, regions), cache, regions)
    if not sizes:
        raise StudyError(f"{regions}: names no region; give a size a line, or bytes and address")
    if order != ORDERS[0]:
        sizes.sort(reverse=order == "descending")
    return sizes


def _equal(byte_count: int, many: int) -> list[int]:
    if not 1 <= many <= min(byte_count, MOST_REGIONS):
        raise StudyError(f"--regions must be from 1 to {min(byte_count, MOST_REGIONS)}, got {many}")
    each, rest = divmod(byte_count, many)
    return [each + (place < rest) for place in range(many)]
