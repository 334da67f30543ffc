"""Sizes in bytes: every option, setting and file takes every spelling, and all mean the same."""

import pytest
import typer
import typer.main
from hypothesis import given
from hypothesis import strategies as st

import nicscope as ns
from nicscope.cli.app import app
from nicscope.cli.arguments import byte_count
from nicscope.cli.trace import sizes_of
from nicscope.config.design import (
    SCHEMES,
    SETTINGS,
    Kind,
    Scheme,
    load_design,
    read_setting,
    with_settings,
)
from nicscope.config.platform import load_platform
from nicscope.config.quantities import read_bytes
from nicscope.errors import NicscopeError
from nicscope.library.command import byte_count as byte_count_of
from nicscope.library.kv_cache import kv_choices
from nicscope.studies import curves, paging_on_demand, rates, registering
from nicscope.studies import flow as flow_question
from nicscope.studies import latency as latency_question
from nicscope.studies import sizing as size_question
from nicscope.studies.sweep import grid

SPELT = {  # each group is one size
    4096: (
        *("4096", "4_096", "4096B", "4096 bytes", "4K", "4k", "4KiB", "4 KiB", "4kib", " 4 K "),
        "0.00390625M",
    ),
    65536: ("65536", "64K", "64KiB", "64 kib", "0.0625MiB"),
    2 << 20: ("2097152", "2M", "2MiB", "2 MiB", "2mib", "2048K"),
    1 << 30: ("1G", "1GiB", "1 GiB", "1024M"),
}
REFUSED = ("", "K", "2MB", "2kb", "0.3", "2 Mi", "-4K", "2M!", "½M", "٤K", "4e3", "2 2M")


def of_design_file(text, tmp_path):
    file = tmp_path / "d.toml"
    file.write_text(f'scheme = "utlb"\nentries = 4\npage_size = "{text}"\n')
    return load_design(file).page_size


def of_platform(text, _):
    changed = load_platform(f"utlb-prototype@nic_memory_bytes={text}")
    return changed.machine["nic_memory_bytes"].value


def set_on(design, key):
    return lambda text, _: getattr(with_settings(load_design(design), [f"{key}={text}"]), key)


# What reads a size: by the option or file, and the largest size that it takes.
READERS = {
    "a setting": (lambda t, _: read_setting(Scheme.UTLB, "page_size", t, ""), 1 << 30),
    "--set": (set_on("utlb", "page_size"), 1 << 30),
    "--set registered": (set_on("rnic", "registered"), 1 << 40),
    "an area": (set_on("unet", "area_bytes"), 1 << 40),
    "a design's file": (of_design_file, 1 << 30),
    "a platform's @": (of_platform, 1 << 40),
    "size --nic-memory": (lambda t, _: size_question.ask(t).nic_bytes, 1 << 40),
    "size --pin-memory": (lambda t, _: size_question.ask("1K", pin_memory=t).pin_bytes, 1 << 40),
    "size --page-size": (lambda t, _: size_question.ask("1K", page_sizes=t).page_sizes[0], 1 << 30),
    "curve --page-size": (lambda t, _: curves.ask(page_size=t).page_size, 1 << 30),
    "sweep --grid": (
        lambda t, _: grid.ask("utlb", None, [f"page_size={t}"], many=False).axes[0].values[0],
        1 << 30,
    ),
    "flow --payload": (
        lambda t, _: flow_question.ask(platform="alcor", payload=t, max_payload=t).payload,
        1 << 17,
    ),
    "rdma cache --bytes": (
        lambda t, _: registering.libraries("page", "none", None, t)[0].most_bytes,
        1 << 40,
    ),
    "trace convert --slice": (
        lambda t, _: kv_choices("llama-3-70b", slice_bytes=t).slice_bytes,
        1 << 40,
    ),
    "rdma register --bytes": (
        lambda t, _: ns.rdma.register(t, page=4096).found.found[0].pool.byte_count,
        1 << 40,
    ),
    "rdma register --page": (
        lambda t, _: ns.rdma.register("1GiB", page=t).found.found[0].pool.page,
        1 << 30,
    ),
    "rdma copy --page": (
        lambda t, _: ns.rdma.copy(page=t).found.found[0].page,
        1 << 30,
    ),
    "rdma explain --mr": (lambda t, _: ns.rdma.explain(t).found.byte_count, 1 << 40),
    "rdma explain --page-size": (
        lambda t, _: ns.rdma.explain("1GiB", page_size=t).found.asked[0].page,
        1 << 30,
    ),
    "rdma plan --pool": (
        lambda t, _: ns.rdma.plan(t, kv_block=1, page_size=4096).found.wanted.byte_count,
        1 << 40,
    ),
    "rdma plan --max-mr": (
        lambda t, _: ns.rdma.plan(1 << 30, max_mr=t, kv_block=1, page_size=4096)
        .found.wanted.most("region_bytes"),
        1 << 30,
    ),
    "rdma plan --kv-block": (
        lambda t, _: ns.rdma.plan(1 << 40, kv_block=t, page_size=4096).found.wanted.block,
        1 << 40,
    ),
    "rdma plan --page-size": (
        lambda t, _: ns.rdma.plan(1 << 40, page_size=t).found.plans[0].page,
        1 << 30,
    ),
    "rdma path --page-size": (lambda t, _: rates.page_bytes(t), 4096),
    "rdma path --read-bytes": (lambda t, _: rates.window(1, t).byte_count, 4096),
    "rdma odp --page-size": (lambda t, _: paging_on_demand.page_bytes(t), 1 << 30),
    "rdma odp --fault-bytes": (
        lambda t, _: paging_on_demand.ways(t, "none", 1, "none", 4096)[0].fault_bytes,
        1 << 40,
    ),
    "rdma odp --resident": (
        lambda t, _: paging_on_demand.ways("request", "none", 1, t, 4096)[0].resident_bytes,
        1 << 40,
    ),
    "trace make --size": (lambda t, _: sizes_of(t)[0][0], 1 << 30),
    "--pool": (lambda t, _: kv_choices("kimi-k2", pool_bytes=t).pool_bytes, 1 << 40),
    "rdma cache --align": (
        lambda t, _: registering.libraries("page", "none", t)[0].alignment,
        1 << 40,
    ),
    "latency --bytes": (lambda t, _: latency_question.ask(sizes=t).sizes[0], 1 << 16),
    "an argument": (lambda t, _: byte_count(t), 1 << 40),
    "a function": (lambda t, _: byte_count_of("mtu", t), 1 << 40),
}  # fmt: skip
# Options of commands that take one size, and who of the above reads them; ``byte_count``: at once.
OPTIONS = {
    ("replay", "--registered"): "--set registered",
    ("replay", "--page-size"): "--set",
    ("flow", "--payload"): "flow --payload",
    ("flow", "--max-payload"): "flow --payload",
    ("trace make", "--size"): "trace make --size",
    **{("trace make", f"--{name}"): "an argument" for name in ("page-size", "pool", "stride")},
    **dict.fromkeys(
        (
            *(("trace info", "--page-size"), ("trace convert", "--page-size")),
            ("trace convert", "--rank-pool"),
        ),
        "an argument",
    ),
    **{
        tuple(words.rsplit(" ", 1)): "a function"
        for words in (
            *("flow --minpulse", "latency --mtu", "verbs bw --inline", "verbs lat --inline"),
            *("rdma calibrate --memory", "apps kernel --page", "apps kernel --offset"),
        )
    },
    **{  # of requests of a language model, which many commands read
        (command, option): reader
        for command in (
            *("trace convert", "trace info", "rdma descriptors", "replay", "curve", "size"),
            *("rdma cache", "rdma odp", "rdma path", "sweep"),
        )
        for option, reader in (("--pool", "--pool"), ("--slice", "trace convert --slice"))
    },
    **{
        tuple(words.rsplit(" ", 1)): words
        for words in READERS
        if words.split()[0] in ("size", "curve", "rdma")
    },
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_takes_every_spelling_alike_and_refuses_what_is_none(reader, tmp_path):
    read, most = READERS[reader]
    for size, spellings in SPELT.items():
        if size <= most:
            found = {text: read(text, tmp_path) for text in spellings}
            assert found == dict.fromkeys(spellings, size)
    for text in ("2MB", "2 Mi", "-4K"):
        with pytest.raises((NicscopeError, typer.BadParameter)):
            read(text, tmp_path)


def options_of(command, words=()):
    """(command, option, parameter) of everything beneath ``command``."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options_of(inner, (*words, name))
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield " ".join(words), parameter.opts[-1], parameter


def test_no_option_that_takes_bytes_reads_them_in_its_own_way():
    found = {
        (command, option): parameter
        for command, option, parameter in options_of(typer.main.get_command(app))
        if (parameter.metavar or "").startswith("BYTES")
    }

    assert set(found) == set(OPTIONS)
    for key, reader in OPTIONS.items():
        assert reader in READERS
        taken = found[key].type_descriptor
        parser = taken.parameter_info.parser
        assert parser is (byte_count if reader == "an argument" else None), key
        assert reader == "an argument" or taken.annotation is str, key


def test_every_setting_in_bytes_is_read_by_the_same_rules():
    for scheme, rule in SCHEMES.items():
        for key in rule.uses:
            if SETTINGS[key].kind is Kind.BYTES:
                assert read_setting(scheme, key, "64K", "") == 65536


def test_what_is_no_size_is_none():
    assert {text: read_bytes(text) for text in REFUSED} == dict.fromkeys(REFUSED)


@given(st.integers(0, 1 << 50), st.sampled_from(["", "b", "k", "M", "kib", "GiB", "t"]))
def test_a_number_and_a_unit_are_their_product(count, unit):
    times = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit.lower().removesuffix("ib")]

    assert read_bytes(f"{count}{unit}") == count << times
    assert read_bytes(f" {count} {unit}") == count << times
