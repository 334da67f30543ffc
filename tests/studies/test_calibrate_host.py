"""``nicscope rdma calibrate``: what is measured here, what is refused, and the file that comes."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.config.costs import (
    Evidence,
    Span,
    load_registration_costs,
    registration_file,
    registration_names,
)
from nicscope.errors import NicscopeError
from nicscope.studies import host_costs as host
from nicscope.studies.host_costs import PAGE, Mapped, locked
from refusals import refused

MIB = 1 << 20
QUICK = {"memory": "4MiB", "seconds": 0.1}


def may_lock(monkeypatch, most):
    real = resource.getrlimit

    def limit(what):
        return (most, most) if what == resource.RLIMIT_MEMLOCK else real(what)

    monkeypatch.setattr(resource, "getrlimit", limit)


def test_its_file_is_what_register_multiplies(tmp_path):
    found = ns.rdma.calibrate(**QUICK)
    found.save(tmp_path / "mine")
    path = tmp_path / "mine" / "registration.toml"

    [way] = ns.rdma.register("1GiB", page=PAGE, costs=str(path)).as_json()["registrations"]

    costs = load_registration_costs(path)
    assert costs.origins["fault"].evidence is Evidence.MEASURED
    assert costs.origins["entry"].evidence is Evidence.DERIVED  # no NIC was asked
    for end in (0, 1):
        touching = (way["pages"] * costs.each("fault")[end] + costs.each("zero")[end]) * 1e-6
        assert way["parts_s"]["touching"][end] == pytest.approx(touching)
        # Fault and zeroing of a page are its first touch again, as far as quarters go.
    middle = found.as_json()["measured"]
    touch = next(one for one in middle if one["name"] == "touch")
    zero = found.found.costs.each("zero")
    low, high = found.found.costs.each("fault")
    assert (
        low + zero.low * PAGE / (1 << 30)
        <= touch["us_median"]
        <= high + zero.high * PAGE / (1 << 30)
    )


def test_the_first_touch_takes_longer_than_the_next():
    with Mapped(16 * MIB) as memory:
        first, second = memory.touch_all(), memory.touch_all()

    assert first.many == second.many == 16 * MIB // PAGE
    assert first.seconds > 3 * second.seconds


def test_no_more_is_pinned_than_may_be_and_all_of_it_is_given_back(monkeypatch):
    pinned = []
    real = Mapped.lock

    def spy(self):
        taken = real(self)
        pinned.append(locked())
        return taken

    monkeypatch.setattr(Mapped, "lock", spy)
    may_lock(monkeypatch, 8 * PAGE)
    before = locked()

    ns.rdma.calibrate(**QUICK)

    assert max(pinned) == max(before, 8 * PAGE)
    assert locked() == before


def test_what_may_not_be_pinned_is_told_and_taken_from_the_published(monkeypatch):
    may_lock(monkeypatch, 0)

    found = ns.rdma.calibrate(**QUICK)

    said = " ".join(found.summary())
    assert "Not measured: pinning, as the process may lock 0 bytes more (RLIMIT_MEMLOCK" in said
    published = load_registration_costs("connectx")
    assert found.found.costs.each("pin") == published.each("pin")
    assert found.found.costs.origins["pin"] == published.origins["pin"]


def test_without_huge_pages_zeroing_is_that_of_memory_that_is_there(monkeypatch):
    monkeypatch.setattr(Mapped, "is_huge", lambda _: False)

    found = ns.rdma.calibrate(**QUICK)

    assert "huge pages on advice, as the kernel gave small pages" in " ".join(found.summary())
    zero = found.found.measured["zero"].span
    assert found.found.costs.each("zero").low == pytest.approx(zero.low / PAGE * (1 << 30))


def test_pages_of_two_sizes_tell_fault_and_zeroing_apart():
    # A fault of 0.5 us, and zeroing at 10 GB/s: of 4 KiB 0.4096 us, of 2 MiB 209.7152.
    def measured(name, each, size):
        return host.Measured(name, Span(each, each), each, 9, size)

    found = host.costs_of(
        {
            "touch": measured("touch", 0.9096, 4096),
            "touch huge": measured("touch huge", 210.2152, 2 * MIB),
            "pin": measured("pin", 0.05, 4096),
            "pin huge": measured("pin huge", 6.0, 2 * MIB),
        },
        load_registration_costs("connectx"),
        "a machine",
    )

    assert found.each("fault") == pytest.approx(Span(0.5, 0.5))
    assert found.each("zero").low == pytest.approx((1 << 30) / 10_000)
    assert found.each("pin") == Span(0.05, 0.05)
    assert found.each("pin", 2 * MIB) == Span(6.0, 6.0)
    assert found.each("pin", 1 << 30) == Span(6.0, 512 * 6.0)


@given(low=st.floats(0, 1e5), more=st.floats(0, 1e5), name=st.sampled_from(registration_names()))
def test_costs_written_to_a_file_are_read_again(tmp_path_factory, low, more, name):
    costs = load_registration_costs(name)
    key = next(iter(costs.costs))
    costs.costs[key] = Span(low, low + more)
    if "pin" in costs.costs:
        costs.pages[2 * MIB] = {"pin": Span(low, low + more)}
        costs.origins["pin of 2MiB"] = costs.origins["pin"]
    path = tmp_path_factory.mktemp("costs") / "again.toml"

    path.write_text(registration_file(costs))

    again = load_registration_costs(path)
    assert again.origins == costs.origins
    assert again.not_applicable == costs.not_applicable
    assert again.limits == costs.limits
    assert again.pages.keys() == costs.pages.keys()
    assert again.copying == costs.copying
    assert again.copying_origins == costs.copying_origins
    for each, span in costs.costs.items():
        assert again.each(each) == pytest.approx(span, rel=1e-5)


def test_more_than_is_left_is_not_taken(monkeypatch):
    monkeypatch.setattr(host, "available_bytes", lambda: 20 * MIB)
    with refused(NicscopeError, "a quarter"):
        ns.rdma.calibrate(memory="8MiB")
