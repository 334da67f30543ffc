"""The page of a reproduction as a browser shows it: every number, its evidence, and the filters."""

import html
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from nicscope.reports.reproduction import ShownReproduction
from nicscope.studies.reproduce.harness import load_papers, study
from nicscope.studies.reproduce.verdict import (
    KnownMiss,
    Met,
    Reproduction,
    Unjudged,
    hold,
    judge,
)
from published_items import study_names
from reproduce.study_samples import write_sample

MOST_BYTES = 10 << 20
EVIL = "<script>throw new Error('markup')</script><img src=x onerror=alert(1)> & \"more\""


def sampled():
    """Every expectation of every paper, met, missed as known, or missed anew, in turns."""
    found = Reproduction([], [], [], [], [], {}, [])
    known = KnownMiss(why="it is known to miss", off=Decimal("1e12"))
    short = KnownMiss(why="it is known not to hold", short="by far")
    number = 0
    for key, paper in load_papers().items():
        for name, item in paper.items.items():
            for point in item.expected_points():
                number += 1
                off = point.tolerance * (number % 5 - 2) / 2 + (number % 7 == 0) * (
                    point.tolerance * 3 + abs(point.published) / 10
                )
                listed = known if number % 2 else None
                baseline = point.published * 2 if item.baseline else None
                value = point.published + off
                found.points.append(judge(key, name, point, value, baseline, listed))
            for shape in item.shapes:
                number += 1
                listed = short if number % 2 else None
                found.shapes.append(hold(key, name, shape, (number % 4 > 0, EVIL), listed))
            if item.baseline:
                found.baselines[f"{key}/{name}"] = item.baseline
            if item.missing:
                found.missing.append(Unjudged(key, name, item.missing))
            if (key, name) in study_names():
                found.studies.append(Unjudged(key, name, item.study))
    found.met.append(Met("utlb", "table6", "utlb us", "it was one"))
    return found


@pytest.fixture(scope="module")
def found():
    return sampled()


@pytest.fixture(scope="module")
def address(found, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    ShownReproduction(found, ["utlb"]).save(folder / "report")
    return (folder / "report" / "index.html").as_uri()


def outcome(check):
    if check.ok:
        return "met"
    return "new" if check.known_miss is None else "known"


def shown(page):
    return page.locator(".check:visible").count()


def wanted(found, paper=None, labels=None, outcomes=None):
    return [
        one
        for one in [*found.points, *found.shapes]
        if (paper is None or one.paper == paper)
        and (labels is None or one.basis.value in labels)
        and (outcomes is None or outcome(one) in outcomes)
    ]


def test_the_page_is_one_small_file_that_names_nothing_else(address):
    text = Path(unquote(urlparse(address).path)).read_text()

    assert len(text.encode()) < MOST_BYTES
    assert "default-src 'none'" in html.unescape(text)
    assert "http://" not in text
    assert "https://" not in text
    assert "<link" not in text
    assert "src=" not in text.replace("src=x onerror", "")


def test_every_number_and_statement_is_there_with_label_verdict_and_evidence(
    address, found, opened
):
    page = opened(address)

    rows = page.eval_on_selector_all(
        "tr.check", "all => all.map(x => [x.closest('.item').id, x.dataset.label,"
        " x.dataset.verdict, ...[...x.children].map(y => y.innerText)])",
    )  # fmt: skip
    expected = {
        f"{one.paper}/{one.id} {one.basis} {outcome(one)} {one.published:g} {one.reproduced:.6g}"
        for one in found.points
    }
    assert len(rows) == len(found.points)
    assert {f"{row[0]} {row[1]} {row[2]} {row[5]} {row[6]}" for row in rows} == expected
    lines = page.eval_on_selector_all(
        "li.check", "all => all.map(x => [x.dataset.label, x.dataset.verdict, x.innerText])"
    )
    assert len(lines) == len(found.shapes)
    for (label, verdict, text), shape in zip(
        lines, sorted(found.shapes, key=lambda one: list(load_papers()).index(one.paper)),
        strict=True,
    ):  # fmt: skip
        assert (label, verdict) == (shape.basis.value, outcome(shape))
        assert shape.because.split()[0] in text
    because = {one.because for one in [*found.points, *found.shapes]}
    whole = page.inner_text("main")
    assert [each for each in because if " ".join(each.split()) not in " ".join(whole.split())] == []
    assert all(f"nicscope reproduce {one.paper}/{one.id}" in whole for one in found.points)
    assert "it is known to miss" in whole
    # Texts are no markup, whatever is in them.
    assert page.locator("img").count() == 0
    assert EVIL in page.inner_text("li.check >> nth=0")


def test_figures_are_drawn_with_a_mark_for_each_number_on_both_sides(address, found, opened):
    page = opened(address)

    drawn = page.eval_on_selector_all(
        "figure .pair",
        """all => all.map(pair => {
          const sides = [...pair.querySelectorAll('svg[role=img]')];
          return sides.map(svg => ({
            width: svg.getBoundingClientRect().width, height: svg.getBoundingClientRect().height,
            marks: svg.querySelectorAll('.mark, rect').length, label: svg.ariaLabel,
            scale: [...svg.querySelectorAll('text[text-anchor=end]')].map(t => t.innerHTML).join(),
            outside: [...svg.querySelectorAll('.mark, rect, text')].filter(each => {
              const [a, b] = [each.getBoundingClientRect(), svg.getBoundingClientRect()];
              return a.left < b.left - 1 || a.right > b.right + 1
                || a.top < b.top - 1 || a.bottom > b.bottom + 1;
            }).map(each => each.textContent),
          }));
        })""",
    )
    assert len(drawn) > 20
    for printed, ours in drawn:
        assert printed["marks"] == ours["marks"] >= 2
        assert printed["scale"] == ours["scale"]
        assert (printed["outside"], ours["outside"]) == ([], [])
        assert min(printed["width"], printed["height"], ours["width"], ours["height"]) > 40
        assert printed["label"].startswith("what the paper prints")
    missed = [one for one in found.points if not one.ok]
    assert 0 < page.locator("figure .missed, figure .bar.miss").count() <= len(missed)


def test_filters_show_what_they_say_and_the_address_keeps_them(address, found, opened):
    page = opened(address)
    everything = len(wanted(found))
    assert shown(page) == everything

    page.select_option("#paper", "trapeze")
    assert shown(page) == len(wanted(found, "trapeze")) < everything
    page.uncheck("#label-identity")
    page.uncheck("#label-fitted")
    assert shown(page) == len(wanted(found, "trapeze", {"predicted"})) > 0
    page.uncheck("#verdict-met")
    left = len(wanted(found, "trapeze", {"predicted"}, {"known", "new"}))
    assert shown(page) == left > 0
    assert page.inner_text("#count") == f"{left} of {everything} numbers and statements are shown"
    assert page.locator(".paper:visible").count() == 1
    assert page.locator(".item:visible >> nth=0").locator(".check:visible").count() > 0

    page.reload()
    assert shown(page) == left
    assert not page.is_checked("#label-identity")
    page.click("#all")
    assert shown(page) == everything
    assert "#" not in page.url

    page.uncheck("#verdict-met")
    page.uncheck("#verdict-known")
    assert shown(page) == len(wanted(found, outcomes={"new"})) > 0
    page.uncheck("#verdict-new")
    assert shown(page) == 0
    assert page.locator(".paper:visible").count() == 0
    page.click("#all")

    page.fill("#words", "UTLB/table1 UNPIN")
    items = page.eval_on_selector_all(
        ".item", "all => all.filter(x => !x.hidden && x.offsetParent).map(x => x.id)"
    )
    assert items == ["utlb/table1"]
    assert 0 < shown(page) < len(wanted(found, "utlb"))


def test_the_overview_leads_to_each_paper_and_tells_what_the_summary_counts(address, found, opened):
    page = opened(address)
    rows = page.eval_on_selector_all(
        "#overview tbody tr", "all => all.map(x => [...x.children].map(y => y.innerText))"
    )

    assert len(rows) == len(load_papers())
    for (title, numbers, statements, known, new), (key, paper) in zip(
        rows, load_papers().items(), strict=True
    ):
        counted = [
            one for one in found.points if one.paper == key and one.basis.value != "identity"
        ]
        shapes = [one for one in found.shapes if one.paper == key]
        assert title == paper.title
        within = f"{sum(one.ok for one in counted)} of {len(counted)}"
        assert numbers == (within if counted else "none")
        assert statements == f"{sum(one.ok for one in shapes)} of {len(shapes)}"
        assert int(known) == len(wanted(found, key, outcomes={"known"}))
        assert int(new) == len(wanted(found, key, outcomes={"new"}))
    page.select_option("#paper", "edt")
    page.click("#overview a[href='#utlb']")  # which the filter hides
    assert page.locator("#utlb").is_visible()
    assert page.evaluate("document.getElementById('utlb').getBoundingClientRect().top") < 50
    page.click("#utlb .contents summary")
    links = page.eval_on_selector_all(
        "#utlb .contents a", "all => all.map(x => decodeURIComponent(x.hash.slice(1)))"
    )
    assert links == page.eval_on_selector_all("#utlb .item", "all => all.map(x => x.id)")
    page.uncheck("#verdict-met")
    assert page.locator("#utlb .contents a:visible").count() < len(links)


def test_on_a_phone_each_number_has_its_heading_and_on_paper_no_table_is_cut(address, opened):
    page = opened(address, 360)

    aside = page.eval_on_selector_all(
        ".numbers", "all => all.filter(x => x.scrollWidth > x.clientWidth).map(x => x.innerText)"
    )
    assert aside == []
    told = page.eval_on_selector_all(
        "[id='utlb/table1'] tr.check td[data-head]",
        "all => all.slice(0, 4).map(x => getComputedStyle(x, '::before').content)",
    )
    assert told == ['"printed"', '"here"', '"error"', '"within"']
    cut = page.eval_on_selector_all(
        "figure svg text",
        """all => all.filter(one => {
          const [text, picture] = [one, one.ownerSVGElement].map(x => x.getBoundingClientRect());
          return text.left < picture.left - 1 || text.right > picture.right + 1;
        }).map(one => one.textContent)""",
    )
    assert cut == []
    tall = page.eval_on_selector_all(
        "figure svg text", "all => all.map(x => x.getBoundingClientRect().height)"
    )
    assert min(tall) > 12
    # On paper there are no controls, and no table is cut.
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.is_visible("#filters")
    assert not page.is_visible(".contents >> nth=0")
    kinds = page.eval_on_selector_all(
        ".scroll", "all => all.map(x => getComputedStyle(x).overflowX)"
    )
    assert set(kinds) == {"visible"}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_keyboard_alone_sets_a_filter(address, found, opened):
    page = opened(address)
    reached = []
    while "all" not in reached:
        assert len(reached) < 30, reached
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
        if reached[-1] == "label-identity":
            page.keyboard.press("Space")

    assert shown(page) == len(wanted(found, labels={"predicted", "fitted"}))
    order = ["paper", "label-predicted", "label-fitted", "label-identity"]
    order += ["verdict-met", "verdict-known", "verdict-new", "words", "all"]
    assert [name for name in reached if name in order] == order


def test_without_scripts_everything_is_shown_and_no_filter_pretends(address, found, browser):
    page = browser.new_page(java_script_enabled=False)
    page.goto(address)

    assert shown(page) == len(wanted(found))
    assert not page.is_visible("#filters")
    page.close()


def test_nothing_is_cut_off_or_pale_at_any_width(address, opened, contrasts):
    page = opened(address)

    for width in (1440, 820, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert contrasts(page) == []


STUDIES = ["utlb/figure7", "utlb/table8"]  # one pass each, no replay


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The studies of two small traces."""
    folder = tmp_path_factory.mktemp("traces")
    files = [write_sample(folder / f"{name}.parquet", seed) for seed, name in enumerate("ab")]
    found = Reproduction([], [], [], [], [], {}, [])
    study(found, STUDIES, files)
    return found


def test_studies_have_their_tables_and_pictures_in_the_page(studied, tmp_path, opened):
    wanted = [*STUDIES, "--trace", "my traces"]
    ShownReproduction(studied, wanted).save(tmp_path / "report")
    page = opened((tmp_path / "report" / "index.html").as_uri())

    assert not page.is_visible("#filters")  # there is no verdict to choose by
    again = "nicscope reproduce utlb/figure7 --trace 'my traces'"
    assert again in page.inner_text("[id='utlb/figure7']")
    drawn = page.eval_on_selector_all(
        ".study img", "all => all.map(each => [each.naturalWidth > 100, each.alt.length > 10])"
    )

    assert drawn == [[True, True]] * len(drawn)
    assert len(drawn) == len(list((tmp_path / "report").glob("*.svg"))) > 0
    tables = page.eval_on_selector_all(".study table", "all => all.map(each => each.innerText)")
    assert any("a" in table and "b" in table for table in tables)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_pictures_without_room_are_named_and_lie_beside_the_page(studied, tmp_path, monkeypatch):
    monkeypatch.setattr("nicscope.reports.reproduction.MOST_PICTURED", 10)
    ShownReproduction(studied, STUDIES).save(tmp_path / "report")

    text = (tmp_path / "report" / "index.html").read_text()

    assert "<img" not in text
    for picture in (tmp_path / "report").glob("*.svg"):
        assert f"{picture.name}, in the folder of this page" in text
