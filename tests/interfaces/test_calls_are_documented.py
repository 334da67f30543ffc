"""``docs/vmmc.md`` and ``docs/via.md`` name every call and every setting."""

import re
from pathlib import Path

from nicscope.config.platform import OF_VIA, VIA_COSTS, load_platform
from nicscope.interfaces.via import Nic
from nicscope.interfaces.vmmc import Endpoint

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "via.md").read_text()


def test_every_call_of_the_libraries_is_on_their_pages():
    of_vmmc = set(re.findall(r"`([a-z_]+)", (DOCS / "vmmc.md").read_text()))
    own = {name for name in vars(Endpoint) if not name.startswith("_")}
    assert own <= of_vmmc | {"cluster"}
    named = set(re.findall(r"`([a-z_]+)`", PAGE)) | {"node", "now_us", "now_ps", "errors"}
    assert {name for name in dir(Nic) if not name.startswith("_")} <= named


def test_every_setting_of_the_messaging_is_on_the_page_with_its_default():

    platform = load_platform("sonic-via")
    values = {name: platform.machine[name].value for name in OF_VIA}
    values |= {name: platform.costs[name].high_ps for name in VIA_COSTS}
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([\d,]+) ", PAGE, re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in rows.items()} == values
    for name in VIA_COSTS:
        assert f"`{name}`" in PAGE
