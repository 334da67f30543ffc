"""U-Net/MM Table 1: its steps added up by operations of running systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.unet_overlap import ROUNDS, during_a_page_in, held_by_a_fault
from nicscope.studies.reproduce.unet_steps import (
    COLUMNS,
    MAPPED_NT,
    MAPPED_PCA200,
    UNET_LINUX,
    UNET_NT,
    UNET_PCA200,
    copy_us,
    receive,
    sends,
    translations_ahead,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

SIZES = (40, 1498)
DISK_US = 22_000
PINS = ("miss", "copy on write", "zero map-in")
# What is printed; NT's hit and copy are blank, and its buffers share pages.
AHEAD = {
    MAPPED_PCA200: ("hit", *PINS, *(f"{case} with unpin" for case in PINS)),
    MAPPED_NT: ("miss", "miss with unpin", "page fault"),
}


def run(item: Item) -> Outcome:
    """Send, translate ahead and receive in every column; watch who waits for the disk."""
    del item
    outcome = Outcome()
    for name, column in COLUMNS.items():
        times = sends(column)
        if column in AHEAD:
            for case, spent in times.items():
                outcome.point("send", "us", _rounded(spent), column=name, case=case)
            for case, spent in translations_ahead(column, AHEAD[column]).items():
                outcome.point("pretranslate", "us", _rounded(spent), column=name, case=case)
        else:
            spent = times["hit"]
            outcome.point("send", "us", _rounded(spent), column=name, case="no translation")
        for length in SIZES:
            spent = receive(column, length).work_us
            outcome.point("receive", "us", _rounded(spent), column=name, bytes=length)
        for side, copied in receive(column, SIZES[1]).copied.items():
            copies = copied / SIZES[1]
            outcome.point("copies_of_a_message", "copies", copies, column=name, side=side)
    _judge_end_to_end(outcome)
    _judge_page_ins(outcome)
    _judge_places(outcome)
    return outcome


def _rounded(microseconds: float) -> float:
    """To the picosecond, the unit of the simulation."""
    return round(microseconds, 6)


def _judge_end_to_end(outcome: Outcome) -> None:
    unet, mapped = (receive(column, SIZES[1]) for column in (UNET_PCA200, MAPPED_PCA200))
    parts = (mapped.sent.work_us - unet.sent.work_us, mapped.work_us - unet.work_us)
    whole = mapped.one_way_us - unet.one_way_us
    outcome.shape(
        "hits-add-three-end-to-end",
        abs(parts[0] - 1) <= 0.06 and abs(parts[1] - 2) <= 0.06 and abs(whole - 3) <= 0.06,
        f"{parts[0]:.2f} us at the sender, {parts[1]:.2f} us at the receiver, {whole:.2f} us from "
        f"one program to the other, of {mapped.one_way_us:.1f} us",
    )


def _judge_page_ins(outcome: Outcome) -> None:
    seen = during_a_page_in()
    outcome.shape(
        "others-go-on-during-a-page-in",
        seen.ended_us - seen.begun_us > DISK_US and max(seen.others_us.values()) < seen.ended_us,
        f"{ROUNDS} messages there and back after "
        + ", ".join(
            f"{(end - seen.begun_us) / 1000:.1f} ms ({who})" for who, end in seen.others_us.items()
        )
        + f"; the page after {(seen.ended_us - seen.begun_us) / 1000:.1f} ms",
    )
    held = held_by_a_fault()
    outcome.shape(
        "a-fault-on-nt-holds-its-process",
        held.call_us > DISK_US and held.messages > 0,
        f"the call took {held.call_us / 1000:.1f} ms, in which another process received "
        f"{held.messages} messages",
    )


def _judge_places(outcome: Outcome) -> None:
    nt, pca200 = receive(MAPPED_NT, SIZES[1]), receive(MAPPED_PCA200, SIZES[1])
    kernel = nt.sent.work_us + nt.work_us - copy_us(UNET_NT, SIZES[1])
    firmware = pca200.sent.work_us + pca200.work_us
    nic, host = sum(nt.nic_us.values()), sum(pca200.host_us.values())
    outcome.shape(
        "host-translates-faster-but-pays",
        kernel < firmware and nic == 0 and host == 0,
        f"{kernel:.1f} us without the copy, all of the host's processor and {nic:.0f} of the "
        f"controller's; {firmware:.1f} us on the PCA-200, {host:.0f} of them the host's",
    )
    shares = [copy_us(UNET_LINUX, size) / copy_us(UNET_NT, size) for size in SIZES]
    outcome.shape(
        "linux-copies-at-half-of-nt",
        abs(shares[1] - 0.5) <= 0.02 and shares[0] > 1,
        ", ".join(
            f"{share:.2f} of NT's time at {size} bytes"
            for share, size in zip(shares, SIZES, strict=True)
        ),
    )
