"""``docs/via.md`` names every call and every setting."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "via.md").read_text()


def test_every_call_of_the_library_is_on_the_page():
    from nicscope.interfaces.via import Nic

    calls = {name for name in dir(Nic) if not name.startswith("_")}
    named = set(re.findall(r"`([a-z_]+)`", PAGE)) | {"node", "now_us", "now_ps", "errors"}
    assert calls <= named


def test_every_setting_of_the_messaging_is_on_the_page_with_its_default():
    from nicscope.config.machine import OF_VIA, VIA_COSTS
    from nicscope.config.platform import load_platform

    platform = load_platform("sonic-via")
    values = {name: platform.machine[name].value for name in OF_VIA}
    values |= {name: platform.costs[name].high_ps for name in VIA_COSTS}
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([\d,]+) ", PAGE, re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in rows.items()} == values
    for name in VIA_COSTS:
        assert f"`{name}`" in PAGE
