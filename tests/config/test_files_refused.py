"""Designs and platforms that are refused: one line that names the file and what of it is wrong."""

from functools import partial
from pathlib import Path

import pytest

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.errors import DesignError, PlatformError
from refusals import refused

UTLB = 'scheme = "utlb"\nentries = 64\n'
STATIC = 'scheme = "static"\nentries = '
DESIGNS = [
    ("entries = 64", "no scheme", "handle, interrupt, pinned,"),
    ('scheme = "utbl"', "scheme 'utbl'", "'utlb'"),
    ('scheme = "utlb"\nentris = 64', "'entris'", "'entries'"),
    ('scheme = "utlb"\nline = 4', "scheme 'utlb'", "'line'", "entries, ways,"),
    ('scheme = "utlb"\nentries = 3000', "entries", "power of two", "got 3000"),
    ('scheme = "utlb"\nentries = 0', "entries", "1 to 67108864", "got 0"),
    ('scheme = "utlb"\nentries = 64.5', "entries", "whole number", "got 64.5"),
    ('scheme = "utlb"\nentries = true', "entries", "whole number", "got True"),
    ('scheme = "utlb"\nentries = [1]', "entries", "whole number", "got [1]"),
    (f"{UTLB}ways = 128", "ways (128)", "entries (64)"),
    (
        'scheme = "handle"\nentries = 64\nways = 4\nline = 32',
        "line (32)", "ways (4)", "entries (64)",
    ),
    (f"{UTLB}index_offset = 1", "index_offset", "true or false", "got 1"),
    (f'{UTLB}replacement = "lur"', "replacement 'lur'", "'lru'"),
    (f"{UTLB}prefetch = 1025", "prefetch", "1 to 1024"),
    ('scheme = "pinned"\narea_bytes = "64 kilos"', "area_bytes", "whole number"),
    (f"{STATIC}1\npage_size = 1000", "page_size", "power of two"),
    (f"{STATIC}1\npage_size = 256", "page_size", "from 512"),
    (f'{STATIC}"none"', "entries", "scheme 'static'"),
    (f"{STATIC}{{}}", "entries has no value"),
    (f"{STATIC}{{ value = 1 }}", "entries has no evidence", "published,"),
    (f'{STATIC}{{ value = 1, evidence = "heard" }}', "entries", "'heard'", "published,"),
    (f'{STATIC}{{ value = 1, evidence = "assumed" }}', "entries has no source"),
    (
        f'{STATIC}{{ value = 1, evidence = "derived", source = "P, 3" }}',
        "entries", "'P'", "[sources]",
    ),
    (f"{STATIC}{{ valeu = 1 }}", "entries", "'valeu'"),
    (f"title = 3\n{STATIC}1", "title", "got 3"),
    (f"sources = 3\n{STATIC}1", "sources", "got 3"),
    (STATIC, "not TOML"),
    ("entries = 1e999999999999999999999", "not TOML", "too large"),
    (f"entries = {'9' * 5000}", "not TOML"),
    (b"\xff\xfe", "UTF-8"),
    (f'{UTLB}way = "edtt"', "way 'edtt'", "'edt'"),
    (f"{UTLB}way = 3", "way 3", "cc-dma-intervention, "),
    (f'{UTLB}served_by = "none"', "served_by 'none'", "kernel, nic"),
    (f'{UTLB}delivery = "Adaptive"', "delivery 'Adaptive'", "'adaptive'"),
    (f'{UTLB}transport = {{ value = "reliable" }}', "transport has no evidence"),
    (f'{UTLB}served = "nic"', "'served'", "'served_by'"),
]  # fmt: skip
WHY = 'evidence = "assumed", source = "a guess"'
POST = f'[costs]\npost = {{ value = 1, unit = "us", {WHY} }}\n'


def cost(cell, name="interrupt", why=f", {WHY}"):
    return f"[costs]\n{name} = {{ {cell}{why} }}\n"


def machine(cell):
    return f"{POST}[machine]\n{cell.replace('%s', WHY)}\n"


def takes(cell):
    return f'combines = ["sonic-via", "utlb-prototype"]\n[takes]\n{cell}\n'


IN_US = "unit = 'us'"
PLATFORMS = [
    ("[cost]", "'cost'", "'costs'"),
    ("title = 'x'", "no [costs]"),
    ("costs = 3", "no [costs]"),
    ("[costs]\nintrrupt = 3", "costs", "'intrrupt'", "'interrupt'"),
    ("[costs]\ninterrupt = 3", "costs.interrupt", "value, unit, evidence and"),
    (cost("value = 3, units = 'us'"), "costs.interrupt", "'units'", "'unit'"),
    (cost("value = 3"), "costs.interrupt has no unit"),
    (cost("value = 3, unit = 'h'"), "costs.interrupt", "'h'", "ps, ns, us, ms, s"),
    (cost("value = 3, unit = 'ns'", "copy_per_byte"), "costs.copy_per_byte", "'ns'", "ps/B,"),
    (cost(IN_US), "costs.interrupt has no value"),
    (cost(f"value = 'x', {IN_US}"), "costs.interrupt", "a number", "got 'x'"),
    *[
        (cost(f"value = {value}, {IN_US}"), "costs.interrupt", "from 0 to ")
        for value in ("-1", "nan", "1e300")
    ],
    (cost(f"value = 0.0000001, {IN_US}"), "costs.interrupt", "1E-7 us", "picoseconds"),
    (cost(f"value = 1e-300000, {IN_US}"), "costs.interrupt", "1E-300000 us", "picoseconds"),
    (cost(f"value = [2, 1], {IN_US}"), "costs.interrupt", "[low, high]", "got [2, 1]"),
    (cost(f"value = [], {IN_US}"), "costs.interrupt", "[low, high]", "got []"),
    (cost(f"at = [1], value = 2, {IN_US}"), "costs.interrupt", "'at'"),
    (cost(f"value = [2, 3], {IN_US}", "user_pin"), "costs.user_pin", "pages", "'at'"),
    (cost(f"at = [1, 2], value = [2], {IN_US}", "user_pin"), "costs.user_pin", "pages", "'at'"),
    (
        cost(f"at = [2, 1], value = [2, 3], {IN_US}", "user_pin"),
        "costs.user_pin", "'at'", "rise", "[2, 1]",
    ),
    (
        cost(f"at = [1, 1.5], value = [2, 3], {IN_US}", "user_pin"),
        "costs.user_pin", "'at'", "whole numbers", "[1, 1.5]",
    ),
    (cost(f"value = 3, {IN_US}", why=""), "costs.interrupt has no evidence", "published,"),
    (
        cost(f"value = 3, {IN_US}, evidence = 'published', source = 'A'", why=""),
        "costs.interrupt", "'A'", "[sources]",
    ),
    (f"{POST}[not_applicable]\npost = 'none'", "post", "not applicable"),
    (f"{POST}[not_applicable]\npots = 'none'", "not_applicable", "'pots'", "'post'"),
    ('[costs]\nuser_pin = "27"', "costs.user_pin", "a time"),
    ('[costs]\nuser_pin = "27ns/B"', "costs.user_pin", "ps, ns, us, ms, s"),
    (machine('ni_mhz = "fast"'), "machine.ni_mhz", "a number"),
    (machine('nic_memory_bytes = "1MB"'), "machine.nic_memory_bytes", "number of bytes"),
    (machine("ni_mhz = true"), "machine.ni_mhz", "table of value"),
    (machine("l1_bytes = []"), "machine.l1_bytes", "value, unit, evidence and source"),
    (machine("l1_byte = {}"), "machine", "'l1_byte'", "'l1_bytes'"),
    (machine("l1_bytes = { value = 1, unit = 'KB', %s }"), "l1_bytes", "unit 'KB'"),
    (machine("l1_bytes = { value = 1, %s }"), "l1_bytes has no unit", "bytes, KiB, MiB"),
    (machine("l1_bytes = { value = 1.5, unit = 'KiB', %s }"), "l1_bytes", "whole number"),
    (machine("l1_bytes = { value = true, unit = 'KiB', %s }"), "whole number", "got True"),
    (machine("l1_bytes = { value = -1, unit = 'KiB', %s }"), "l1_bytes", "from 0 to "),
    (machine("l1_bytes = { unit = 'KiB', %s }"), "whole number", "got None"),
    (machine("valid_bits = { value = 2, unit = '0 or 1', %s }"), "valid_bits", "0 or 1", "got 2"),
    (machine("when_full = { value = 0, unit = '1 or 2', %s }"), "when_full", "1 or 2", "got 0"),
    (machine("snoop = { value = 1, unit = 'ns', %s }"), "snoop", "unit 'ns'", "bus cycles"),
    (f'served_by = "kernel"\n{POST}', "served_by", "value, evidence and source"),
    (f'served_by = {{ value = "host", {WHY} }}\n{POST}', "served_by", "'host'", "kernel, nic"),
    (f'served_by = {{ value = "kernel" }}\n{POST}', "served_by has no evidence"),
    *[
        (f"combines = {given}\n", "platforms of the catalog")
        for given in ('"edt-table1"', '["no such"]', "[3]", "[[]]")
    ],
    ('combines = ["utlb-edt"]\n', "'utlb-edt'", "combined itself"),
    (takes('utlb-prototype = ["dma_init"]'), "'utlb-prototype'", "'dma_init'"),
    (takes('utlb-prototype = "post"'), "lists of costs", "platform"),
    (takes('mini = ["post"]'), "takes"),
    (takes('sonic-via = ["post"]\nutlb-prototype = ["post"]'), "post", "twice"),
]  # fmt: skip


@pytest.mark.parametrize("row", [*DESIGNS, *PLATFORMS], ids=lambda row: " ".join(row[1:]))
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(tmp_path, row):
    text, *facts = row
    path = tmp_path / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    load, error = (load_design, DesignError) if row in DESIGNS else (load_platform, PlatformError)
    with refused(error, *facts) as told:
        load(path)
    assert str(told.value).startswith(f"{path}: ")


UTLB_SET = [
    ("entris=1", "'entris'", "'entries'"),
    ("entries=3", "entries", "power of two", "got 3"),
    ("entries=-4", "entries", "1 to 67108864", "got -4"),
    ("entries=many", "entries", "whole number", "got 'many'"),
    ("entries=64KiB", "entries", "whole number", "got '64KiB'"),
    ("line=4", "scheme 'utlb'", "'line'", "entries, ways, "),
    ("scheme=tlb", "scheme 'tlb'", "'utlb'"),
    ("pin_limit=0", "pin_limit", "from 1 to "),
    ("entries", "KEY=VALUE", "entries=1024"),
    ("=4", "KEY=VALUE"),
    ("entries=", "KEY=VALUE"),
    ("title=x", "'title'"),
]
CALLS = [
    *[
        (partial(with_settings, load_design("utlb"), [given]), f"--set {given}: ", *facts)
        for given, *facts in UTLB_SET
    ],
    (partial(with_settings, load_design("utlb"), ["ways=16384"]), "'utlb'", "(16384)", "(8192)"),
    (partial(with_settings, load_design("utlb"), ["scheme=pinned"]), "'pinned'", "area_bytes"),
    (partial(load_design, "utbl"), "'utbl'", "'utlb'"),
    (partial(load_design, "missing.toml"), "missing.toml", "no such file"),
    (partial(load_design, Path(__file__).parent), "folder"),
    (partial(load_platform, "utlb-protoype"), "'utlb-protoype'", "'utlb-prototype'"),
    (partial(load_platform, "linux-host@ni_mhz=66MHz"), "'linux-host'", "ni_mhz"),
    *[
        (partial(load_platform, f"utlb-prototype@{changes}"), *facts)
        for changes, *facts in [
            ("ni=66", "'ni'", "'ni_mhz'", "'nic_memory_bytes'"),
            ("ni_mhz=fast", "ni_mhz", "66MHz", "'fast'"),
            ("ni_mhz=0", "ni_mhz", "66MHz", "'0'"),
            ("nic_memory_bytes=512KB", "nic_memory_bytes", "512KiB", "'512KB'"),
            ("ni_mhz=66,", "''", "@"),
        ]
    ],
]


@pytest.mark.parametrize("row", CALLS, ids=lambda row: " ".join(row[1:]))
def test_what_is_asked_of_a_design_or_platform_and_cannot_be_is_told_in_one_line(row):
    call, *facts = row
    with refused((DesignError, PlatformError), *facts):
        call()
