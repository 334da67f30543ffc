"""The explorer as a browser shows it: the controls change the numbers, to those of replay."""

import contextlib
import json
import threading
from urllib.parse import quote_plus

import pytest

from exploring_samples import explorer, own_design, small_trace
from nicscope.studies.replaying import choose_subjects, compare

starlette = pytest.importorskip("starlette", reason="the extra explore is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra explore is not installed")


@contextlib.contextmanager
def serving(found, port=0):
    """Yield the port at which the explorer ``found`` answers."""
    from nicscope.serving.explorer import explorer_app, listening

    socket = listening(port)
    config = uvicorn.Config(explorer_app(found), log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    yield socket.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(address, explorer) of a small trace and a design file of a user's own."""
    folder = tmp_path_factory.mktemp("served")
    designs = ["utlb", str(own_design(folder))]
    with explorer(small_trace(folder), designs) as found, serving(found) as port:
        yield f"http://127.0.0.1:{port}/", found


def settled(page, query):
    """Wait until the page shows the numbers of ``query``."""
    page.wait_for_selector(f'body[data-shown="{query}"]')
    page.wait_for_function("document.getElementById('shown').getAttribute('aria-busy') === 'false'")


def shown(page):
    """The numbers on the page, exactly."""
    cards = page.eval_on_selector_all(
        "#numbers dd", "all => all.map(each => [each.id, each.dataset.value])"
    )
    return {name: json.loads(value) for name, value in cards}


def replayed(explored, design, *assignments):
    subjects = choose_subjects([design], None, assignments)
    told = compare(explored.trace, subjects, kinds=False).to_json()
    return {
        "misses": told["total"]["ni_misses"],
        "lookups": told["total"]["lookups"],
        "us": told["cost_us"]["per_lookup"],
        "nic": sum(told["nic_memory_bytes"].values()),
        "interrupts": told["total"]["interrupts"],
        "pinned": told["total"]["peak_pinned_pages"] * told["trace"]["page_size"],
        "pins": told["total"]["pins"],
    }


def test_a_changed_control_gives_the_numbers_of_replay_and_the_address_keeps_them(served, opened):
    address, explored = served
    page = opened(address)
    settled(page, "design=utlb")
    assert shown(page) == replayed(explored, "utlb")

    page.select_option("#ways", "4")
    settled(page, "design=utlb&ways=4")
    page.select_option("#page_size", "16384")
    settled(page, "design=utlb&ways=4&page_size=16384")
    first = shown(page)
    assert first == replayed(explored, "utlb", "ways=4", "page_size=16384")
    page.select_option("#pin_limit", "16")
    query = "design=utlb&ways=4&page_size=16384&pin_limit=16"
    settled(page, query)
    second = shown(page)
    assert second == replayed(explored, "utlb", "ways=4", "page_size=16384", "pin_limit=16")

    assert page.url == f"{address}?{query}"
    page.reload()
    settled(page, query)
    assert shown(page) == second
    page.go_back()
    settled(page, "design=utlb&ways=4&page_size=16384")
    assert shown(page) == first
    assert page.input_value("#pin_limit") == "none"
    page.go_forward()
    settled(page, query)
    assert shown(page) == second
    assert page.input_value("#pin_limit") == "16"


def test_another_design_brings_its_own_settings_and_controls(served, opened):
    address, explored = served
    page = opened(f"{address}?design=utlb&entries=64")
    settled(page, "design=utlb&entries=64")
    assert page.is_disabled("#line")

    page.select_option("#design", "mini")
    settled(page, "design=mini")

    assert shown(page) == replayed(explored, "mini")
    assert page.is_disabled("#prefetch")
    page.select_option("#line", "8")
    settled(page, "design=mini&line=8")
    assert shown(page) == replayed(explored, "mini", "line=8")
    page.click("#reset")
    settled(page, "design=mini")
    page.select_option("#design", "unet")
    settled(page, "design=unet")
    assert page.is_disabled("#entries")
    assert "no curve" in page.inner_text("#curve-note")


def test_the_keyboard_alone_reaches_every_control_and_moves_the_slider(served, opened):
    address, explored = served
    page = opened(address)
    settled(page, "design=utlb")
    reached = []
    while "save" not in reached:
        assert len(reached) < 30, reached
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.id")
        reached.append(name)
        if name == "entries":
            page.keyboard.press("ArrowLeft")
            settled(page, "design=utlb&entries=4096")
            page.keyboard.press("ArrowLeft")
            settled(page, "design=utlb&entries=2048")
            assert page.evaluate("document.activeElement.id") == "entries"
            assert page.get_attribute("#entries", "aria-valuetext") == "2,048 entries"
    assert shown(page) == replayed(explored, "utlb", "entries=2048")
    wanted = ["design", "entries", "ways", "prefetch", "page_size", "pin_limit", "reset", "save"]
    assert [name for name in reached if name in wanted] == wanted
    page.go_back()
    settled(page, "design=utlb&entries=4096")


def test_the_curve_is_drawn_with_the_chosen_point_on_it_and_can_be_read_as_a_table(served, opened):
    address, explored = served
    page = opened(f"{address}?design=utlb&entries=64")
    settled(page, "design=utlb&entries=64")
    page.wait_for_function("document.querySelectorAll('#curve .way-any').length > 0")

    drawn = page.evaluate(
        """() => {
          const here = document.querySelector('#curve .here');
          const dots = [...document.querySelectorAll('#curve .dot.way-1')];
          return dots.some(dot => dot.getAttribute('cx') === here.getAttribute('cx')
                                  && dot.getAttribute('cy') === here.getAttribute('cy'));
        }"""
    )

    assert drawn
    page.click("#curve-details summary")
    misses = replayed(explored, "utlb", "entries=64")["misses"]
    rows = page.eval_on_selector_all("#curve-table tbody tr", "all => all.map(x => x.innerText)")
    assert any(row.startswith(f"64\t{misses:,} (") for row in rows)
    page.evaluate(
        "document.querySelectorAll('#curve .dot.way-2')[4].dispatchEvent(new Event('click'))"
    )
    settled(page, "design=utlb&entries=256&ways=2")
    assert shown(page) == replayed(explored, "utlb", "entries=256", "ways=2")


def test_costs_come_with_their_evidence_and_memory_by_structure(served, opened):
    address, explored = served
    page = opened(address)
    settled(page, "design=utlb")
    told = compare(explored.trace, choose_subjects(["utlb"], None, []), kinds=False).to_json()

    costs = page.eval_on_selector_all("#cost tbody tr", "all => all.map(each => each.innerText)")
    memory = page.eval_on_selector_all("#memory tbody tr", "all => all.map(x => x.innerText)")

    parts = [part for part in told["cost_us"]["components"] if part["count"]]
    assert len(costs) == len(parts)
    for row, part in zip(costs, parts, strict=True):
        assert part["evidence"] in row
        assert part["source"] in row
        assert f"{part['count']:,}" in row
    assert [row.split("\t")[0] for row in memory] == list(told["nic_memory_bytes"])


@pytest.mark.parametrize(
    "query", ["design=utlb&entries=128&ways=2&prefetch=2", "design=mini&line=8"]
)
def test_the_saved_design_file_is_shown_and_replays_to_the_numbers_of_the_page(
    query, served, opened, tmp_path
):
    page = opened(f"{served[0]}?{query}")
    settled(page, query)

    page.click("text=The design as a file")
    with page.expect_download() as waiting:
        page.click("#save")
    waiting.value.save_as(file := tmp_path / waiting.value.suggested_filename)

    assert file.name == f"{query[7:11]}-explored.toml"
    assert page.inner_text("#file") == file.read_text()
    assert shown(page) == replayed(served[1], str(file))


def test_a_design_file_of_a_user_is_chosen_changed_and_replayed(served, opened):
    address, explored = served
    [_, own] = explored.asked
    page = opened(address)
    settled(page, "design=utlb")

    page.select_option("#design", own)
    query = f"design={quote_plus(own)}"
    settled(page, query)
    first = shown(page)
    assert first == replayed(explored, own)
    group = "document.querySelector('#design option:checked').parentElement.label"
    assert page.evaluate(group) == "your design files"
    assert page.inner_text("#command").endswith(f"--design {own}")
    page.select_option("#ways", "2")
    settled(page, f"{query}&ways=2")
    assert shown(page) == replayed(explored, own, "ways=2")
    page.click("#reset")
    settled(page, query)
    assert shown(page) == first


def test_each_control_and_each_step_of_the_cost_is_explained(served, opened):
    page = opened(f"{served[0]}?design=utlb")
    settled(page, "design=utlb")

    unlabelled = page.eval_on_selector_all(
        "select, input", "all => all.filter(each => !each.labels.length).map(each => each.id)"
    )
    assert unlabelled == []
    assert "per 100" in page.get_attribute("#curve svg[role=img]", "aria-label")
    assert page.get_attribute("html", "lang") == "en"
    for name in ("entries", "ways", "line", "prefetch", "page_size", "pin_limit"):
        assert page.get_attribute(f"#{name}", "aria-describedby") == f"{name}-hint"
        assert len(page.inner_text(f"#{name}-hint").split()) > 5
    assert page.inner_text("#line-hint").endswith("Not in scheme utlb.")
    steps = page.eval_on_selector_all("#cost td.step small", "all => all.map(x => x.innerText)")
    assert len(steps) == page.locator("#cost tbody tr").count() > 0
    assert all(len(step.split()) > 2 for step in steps)
    page.click("#basics summary")
    assert "A lookup that it does not find there is a miss" in page.inner_text("#basics")


def test_on_a_phone_a_change_is_seen_beside_the_controls_and_on_paper_no_control(served, opened):
    page = opened(f"{served[0]}?design=utlb", 360)
    settled(page, "design=utlb")
    before = page.inner_text("#brief")

    page.select_option("#page_size", "65536")
    settled(page, "design=utlb&page_size=65536")

    assert "misses per 100" in before
    assert page.inner_text("#brief") != before
    box = page.locator("#brief").bounding_box()
    assert box["y"] + box["height"] == pytest.approx(900, abs=1)
    page.set_viewport_size({"width": 1280, "height": 900})
    assert not page.is_visible("#brief")
    # On paper there are results alone, dark on white.
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for name in ("controls", "brief", "basics", "save"):
        assert page.is_hidden(f"#{name}")
    assert page.is_visible("#curve svg[role=img]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_a_server_that_has_stopped_is_told_with_the_command_that_begins_it_again(
    tmp_path, only_page
):
    page = only_page  # it complains about a connection that is refused, as it should
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(media="screen")
    with explorer(small_trace(tmp_path)) as found:
        with serving(found) as port:
            page.goto(f"http://127.0.0.1:{port}/?design=utlb")
            settled(page, "design=utlb")
            page.keyboard.press("End")
        page.select_option("#ways", "4")
        page.wait_for_selector("#problem:not([hidden])")

        assert "has ended" in page.inner_text("#problem-what")
        again = f"nicscope explore {tmp_path / 'small.parquet'} --port {port}"
        assert page.inner_text("#problem-again") == again
        assert page.locator("#problem").bounding_box()["y"] >= 0
        assert "stale" in page.get_attribute("#shown", "class")
        page.set_viewport_size({"width": 360, "height": 900})
        assert page.is_hidden("#brief")
        page.click("#retry")
        page.wait_for_selector("#problem:not([hidden])")
        with serving(found, port):
            page.click("#retry")
            settled(page, "design=utlb&ways=4")
            assert page.is_hidden("#problem")
            assert "stale" not in page.get_attribute("#shown", "class")
            assert shown(page) == replayed(found, "utlb", "ways=4")


def test_two_changes_made_at_once_both_hold(served, opened):
    page = opened(f"{served[0]}?design=utlb")
    settled(page, "design=utlb")

    page.evaluate(
        """() => {
          for (const [name, value] of [["ways", "2"], ["prefetch", "4"]]) {
            const one = document.getElementById(name);
            one.value = value;
            one.dispatchEvent(new Event("change"));
          }
        }"""
    )

    settled(page, "design=utlb&ways=2&prefetch=4")


def test_a_wrong_address_is_told_on_the_page(served, only_page):
    page = only_page
    page.goto(f"{served[0]}?design=utlb&ways=3")

    page.wait_for_selector("#problem:not([hidden])")

    assert "power of two" in page.inner_text("#problem")
    assert page.is_hidden("#retry")
    assert page.is_hidden("#brief")


@pytest.mark.parametrize("width", [1440, 820, 360])
def test_nothing_is_cut_off_or_pale_at_any_width(served, opened, contrasts, width):
    page = opened(served[0], width)
    settled(page, "design=utlb")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert contrasts(page) == []
        shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (shade == "rgb(255, 255, 255)") == (scheme == "light")
