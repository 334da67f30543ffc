"""Distant functions of drivers of nodes with ports.

``host.calls`` and ``nic.ports.calls`` are for what takes no time; ``linked.FUNCTIONS`` has the
functions themselves, which say what they do.
"""

# ruff: noqa: D103

from nicscope.host.calls import HOST
from nicscope.kernel.distant import Declarations

DRIVER = Declarations(behind=HOST)


# ports/network
@DRIVER.function
def check_transfer(machine, n): ...
@DRIVER.function
def end_packet_send(machine, n, place, now): ...
@DRIVER.function
def receive_header(machine, d, sender, place, now): ...


# ports/leaving
@DRIVER.function
def capture_packet(machine, n, place, now): ...


# ports/cpu
@DRIVER.function
def interrupt_cpu(machine, n, duration, now): ...


# ports/misses
@DRIVER.function
def serve_miss(machine, n, now): ...
@DRIVER.function
def begin_fetch(machine, n, now): ...
@DRIVER.function
def end_miss(machine, n, now): ...
@DRIVER.function
def run_kernel_thread(machine, n, now): ...


# ports/posting
@DRIVER.question
def can_begin_at_port(machine, n, p): ...
@DRIVER.function
def begin_at_port(machine, n, p, now): ...
@DRIVER.function
def end_at_port(machine, n, p, now): ...
@DRIVER.function
def serve_in_trap(machine, n, now): ...
@DRIVER.function
def end_miss_in_trap(machine, n, now): ...


# ports/thread
@DRIVER.function
def queue_miss(machine, n, when): ...
@DRIVER.question
def end_thread_step(machine, n, now): ...
@DRIVER.function
def serve_next_miss(machine, n, now): ...
@DRIVER.function
def scan_pins(machine, n, now): ...
@DRIVER.function
def begin_handler(machine, n, now): ...
@DRIVER.function
def end_handler(machine, n, now): ...


# ports/scripted
@DRIVER.function
def run_script_process(machine, p, now): ...


# traced/follower
@DRIVER.function
def run_trace_process(machine, p, now): ...


# bus/transactions
@DRIVER.function
def fetch_descriptor(machine, n, now): ...
@DRIVER.question
def begin_bus_transaction(machine, n, p, now): ...
@DRIVER.function
def end_descriptor_fetch(machine, n): ...
@DRIVER.function
def on_engine_free(machine, n, now): ...


# bus/arbitration
@DRIVER.function
def fire_bus(machine, n, now): ...
@DRIVER.function
def begin_bus_access(machine, n, p, now): ...
@DRIVER.function
def resume_bus_access(machine, n, now): ...


# bus/payloads
@DRIVER.function
def begin_payload(machine, n, count, now): ...
@DRIVER.function
def fetched_over_bus(machine, n, now): ...
@DRIVER.function
def fetched_at(machine, n, count): ...


# bus/moves
@DRIVER.function
def resume_move(machine, n, master, now): ...


# bus/completion_writes
@DRIVER.function
def end_report_write(machine, n, now): ...
