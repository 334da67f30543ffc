"""The distant functions themselves, in the order of ``calls``."""

from __future__ import annotations

from nicscope.drivers.simulate.ports.admitting import (
    admit,
    admit_piece,
    could_admit_piece,
    could_admit_pieces,
    keep_pages,
    leave_request,
    unpin_pages,
)
from nicscope.drivers.simulate.ports.ahead import (
    defer_buffer,
    give_up_message,
    give_way,
    go_back,
    keep_buffer,
    put_ready,
    return_buffer,
    settle_buffer,
    skip_unready,
    take_buffer,
)
from nicscope.drivers.simulate.ports.checking import check_transfer, is_sound
from nicscope.drivers.simulate.ports.choose import choose_source
from nicscope.drivers.simulate.ports.closing import close_port
from nicscope.drivers.simulate.ports.durations import (
    finish_duration,
    place_duration,
    serve_duration,
)
from nicscope.drivers.simulate.ports.finishing import complete_arrival
from nicscope.drivers.simulate.ports.handles import fill_handle, forget_handle, has_handle
from nicscope.drivers.simulate.ports.handling import begin_handler, end_handler
from nicscope.drivers.simulate.ports.holding import hold, release
from nicscope.drivers.simulate.ports.interrupting import steal_cpu
from nicscope.drivers.simulate.ports.leaving import leave_packet
from nicscope.drivers.simulate.ports.misses import begin_fetch, begin_miss
from nicscope.drivers.simulate.ports.placing import (
    drop_arrival,
    is_cut_off,
    meet_packet,
    place_arrival,
    reject_arrival,
    settle_arrival,
    take_from_kernel,
    turn_away_arrival,
)
from nicscope.drivers.simulate.ports.posting import begin_at_port, can_go_on_at_port, end_at_port
from nicscope.drivers.simulate.ports.reliable import (
    mind_deadlines,
    send_again,
    send_bare_acknowledgement,
)
from nicscope.drivers.simulate.ports.reporting import report_received, report_sent
from nicscope.drivers.simulate.ports.resuming import end_miss, go_on_with_thread
from nicscope.drivers.simulate.ports.scanning import scan_pins
from nicscope.drivers.simulate.ports.scripted import go_on_with_script
from nicscope.drivers.simulate.ports.serve import end_request, enter_page, next_packet, serve
from nicscope.drivers.simulate.ports.thread import next_event, raise_event, thread_is_done
from nicscope.drivers.simulate.ports.translating import (
    ask_page,
    carry_out,
    mend_page,
    needed_for,
    pin_key,
    provide_for,
    serve_page,
    translated_frame,
)
from nicscope.drivers.simulate.ports.trapping import serve_in_trap

FUNCTIONS = (
    could_admit_pieces,
    admit,
    admit_piece,
    keep_pages,
    leave_request,
    take_buffer,
    keep_buffer,
    put_ready,
    return_buffer,
    give_up_message,
    go_back,
    is_sound,
    check_transfer,
    choose_source,
    serve_duration,
    place_duration,
    finish_duration,
    complete_arrival,
    hold,
    release,
    steal_cpu,
    leave_packet,
    begin_miss,
    meet_packet,
    is_cut_off,
    place_arrival,
    settle_arrival,
    drop_arrival,
    reject_arrival,
    can_go_on_at_port,
    begin_at_port,
    end_at_port,
    send_again,
    send_bare_acknowledgement,
    mind_deadlines,
    report_sent,
    report_received,
    end_miss,
    go_on_with_thread,
    serve,
    enter_page,
    end_request,
    next_packet,
    raise_event,
    thread_is_done,
    next_event,
    ask_page,
    translated_frame,
    needed_for,
    serve_page,
    mend_page,
    carry_out,
    provide_for,
    has_handle,
    fill_handle,
    forget_handle,
    scan_pins,
    go_on_with_script,
    pin_key,
    could_admit_piece,
    unpin_pages,
    begin_fetch,
    defer_buffer,
    settle_buffer,
    close_port,
    skip_unready,
    give_way,
    serve_in_trap,
    begin_handler,
    end_handler,
    take_from_kernel,
    turn_away_arrival,
)
