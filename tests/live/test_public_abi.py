"""The public ABI as it is written down here, against rdma-core's own header."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nicscope.live import layout, symbols
from nicscope.live.build import CM, HERE, SOURCES, VERBS, compiler

HEADER = Path("/usr/include/infiniband/verbs.h")
CM_HEADER = Path("/usr/include/rdma/rdma_cma.h")
RSOCKETS_HEADER = Path("/usr/include/rdma/rsocket.h")
CM_FIELDS = {
    "rdma_addr": "src_addr dst_addr addr",
    "rdma_route": "addr path_rec num_paths",
    "rdma_event_channel": "fd",
    "rdma_cm_id": "verbs channel context qp route ps port_num event send_cq_channel send_cq "
    "recv_cq_channel recv_cq srq pd qp_type",
    "rdma_conn_param": "private_data private_data_len responder_resources initiator_depth "
    "flow_control retry_count rnr_retry_count srq qp_num",
    "rdma_ud_param": "private_data private_data_len ah_attr qp_num qkey",
    "rdma_cm_event": "id listen_id event status param",
    "rdma_addrinfo": "ai_flags ai_qp_type ai_port_space ai_src_len ai_src_addr ai_dst_addr "
    "ai_route_len ai_connect ai_next",
}
FIELDS = {  # by struct: fields whose places are compared; its size always is
    "ibv_device": "node_type transport_type name dev_name dev_path ibdev_path",
    "ibv_device_attr": "fw_ver node_guid max_mr_size vendor_id max_qp max_sge atomic_cap "
    "max_mcast_grp max_srq_sge max_pkeys phys_port_cnt",
    "ibv_device_attr_ex": "comp_mask odp_caps completion_timestamp_mask hca_core_clock "
    "device_cap_flags_ex tso_caps rss_caps max_wq_type_rq packet_pacing_caps raw_packet_caps "
    "tm_caps cq_mod_caps max_dm_size pci_atomic_caps xrc_odp_caps phys_port_cnt_ex",
    "ibv_port_attr": "state max_mtu gid_tbl_len port_cap_flags max_msg_sz pkey_tbl_len lid "
    "lmc active_width link_layer flags port_cap_flags2",
    "ibv_async_event": "element event_type",
    "ibv_wc": "wr_id status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags "
    "pkey_index slid sl dlid_path_bits",
    "ibv_pd": "handle",
    "ibv_mr": "context pd addr length handle lkey rkey",
    "ibv_mw": "context pd rkey handle type",
    "ibv_mw_bind": "wr_id send_flags bind_info",
    "ibv_global_route": "dgid flow_label sgid_index hop_limit traffic_class",
    "ibv_grh": "version_tclass_flow paylen next_hdr hop_limit sgid dgid",
    "ibv_ah_attr": "grh dlid sl src_path_bits static_rate is_global port_num",
    "ibv_ah": "context pd handle",
    "ibv_srq_init_attr_ex": "srq_context attr comp_mask srq_type pd xrcd cq tm_cap",
    "ibv_xrcd_init_attr": "comp_mask fd oflags",
    "ibv_qp_init_attr": "qp_context send_cq recv_cq srq cap qp_type sq_sig_all",
    "ibv_qp_init_attr_ex": "comp_mask pd xrcd create_flags max_tso_header rwq_ind_tbl "
    "rx_hash_conf source_qpn send_ops_flags",
    "ibv_qp_open_attr": "comp_mask qp_num xrcd qp_context qp_type",
    "ibv_qp_attr": "qp_state path_mtu qkey rq_psn dest_qp_num qp_access_flags cap ah_attr "
    "alt_ah_attr pkey_index en_sqd_async_notify max_rd_atomic min_rnr_timer port_num timeout "
    "rnr_retry alt_timeout rate_limit",
    "ibv_sge": "addr length lkey",
    "ibv_send_wr": "wr_id next sg_list num_sge opcode send_flags imm_data wr.rdma.rkey "
    "wr.atomic.swap wr.atomic.rkey wr.ud.remote_qpn qp_type.xrc.remote_srqn",
    "ibv_recv_wr": "wr_id next sg_list num_sge",
    "ibv_srq": "context srq_context pd handle mutex cond events_completed",
    "ibv_qp": "context qp_context pd send_cq recv_cq srq handle qp_num state qp_type mutex cond "
    "events_completed",
    "ibv_qp_ex": "qp_base comp_mask wr_id wr_flags wr_atomic_cmp_swp wr_bind_mw wr_send "
    "wr_set_ud_addr wr_set_sge_list wr_start wr_complete wr_abort wr_atomic_write",
    "ibv_comp_channel": "context fd refcnt",
    "ibv_cq": "context channel cq_context handle cqe mutex cond comp_events_completed "
    "async_events_completed",
    "ibv_cq_ex": "comp_mask status wr_id start_poll end_poll read_opcode read_completion_ts "
    "read_completion_wallclock_ns",
    "ibv_cq_init_attr_ex": "cqe cq_context channel comp_vector wc_flags comp_mask flags",
    "ibv_context_ops": "alloc_mw bind_mw dealloc_mw poll_cq req_notify_cq post_srq_recv "
    "post_send post_recv",
    "ibv_context": "device ops cmd_fd async_fd num_comp_vectors mutex abi_compat",
    "verbs_context": "query_port create_cq_ex priv query_device_ex open_qp create_qp_ex "
    "get_srq_num create_srq_ex open_xrcd close_xrcd sz context",
    "ibv_gid_entry": "gid gid_index port_num gid_type ndev_ifindex",
}
GROWN = {"verbs_context": "query_port"}  # at its beginning: places count from its end


def places(header, folder, every):
    """Size and places of ``every`` struct's fields, as a C compiler has them with ``header``."""
    lines = []
    for struct, fields in every.items():
        end = f"sizeof(struct {struct})" if struct in GROWN else "0"
        if struct not in GROWN:
            lines.append(f'printf("{struct} %zu\\n", sizeof(struct {struct}));')
        for field in fields.split():
            at = f"(long)offsetof(struct {struct}, {field}) - (long){end}"
            lines.append(f'printf("{struct}.{field} %ld\\n", {at});')
    source = folder / "places.c"
    includes = f'#include "{header}"\n#include <stddef.h>\n#include <stdio.h>\n'
    source.write_text(f"{includes}int main(void) {{ {' '.join(lines)} return 0; }}\n")
    program = folder / "places"
    subprocess.run([compiler(), "-w", str(source), "-o", str(program)], check=True)
    text = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return dict(line.rsplit(" ", 1) for line in text.splitlines())


@pytest.mark.usefixtures("libraries")
@pytest.mark.skipif(not HEADER.exists(), reason="needs a package: libibverbs-dev")
def test_every_place_is_that_of_the_public_header(tmp_path):
    ours = places(HERE / "abi.h", tmp_path, FIELDS)
    theirs = places(HEADER, tmp_path, FIELDS)

    assert len(ours) > 200
    assert ours == theirs


@pytest.mark.usefixtures("libraries")
@pytest.mark.skipif(not CM_HEADER.exists(), reason="needs a package: librdmacm-dev")
def test_every_place_of_the_connection_manager_is_that_of_its_header(tmp_path):
    ours = places(HERE / "cm_abi.h", tmp_path, CM_FIELDS)

    assert len(ours) > 40
    assert ours == places(CM_HEADER, tmp_path, CM_FIELDS)


@pytest.mark.usefixtures("libraries")
@pytest.mark.skipif(not RSOCKETS_HEADER.exists(), reason="needs a package: librdmacm-dev")
def test_every_call_of_rsockets_is_declared_as_in_their_header(tmp_path):
    text = "".join((HERE / name).read_text() for name in SOURCES[CM] if name.startswith("rsocket"))
    ours = re.findall(r"^EXPORT (\w[^{]*?)\s*\{", text, re.MULTILINE)
    source = tmp_path / "declared.c"
    numbers = "SOL_RDMA == 0x10000 && RDMA_SQSIZE == 0 && RDMA_IOMAPSIZE == 3 && RDMA_ROUTE == 4"
    source.write_text(
        f"#define _GNU_SOURCE\n#include <{RSOCKETS_HEADER}>\n"
        f'_Static_assert({numbers}, "numbers");\n' + "".join(f"{each};\n" for each in ours)
    )

    assert len(ours) == 27
    subprocess.run([compiler(), "-Wall", "-Werror", "-fsyntax-only", str(source)], check=True)


def test_the_c_header_has_every_struct_and_operation():
    text = layout.header()

    assert all(f"struct live_{name} {{" in text for name in layout.STRUCTS)
    assert all(f"LIVE_OP_{name}," in text for name in layout.OPERATIONS)
    assert re.search(rf"LIVE_FINGERPRINT {layout.FINGERPRINT}ull", text)


def test_no_symbol_is_listed_twice_and_all_that_binaries_ask_for_are_there():
    listed = [
        name
        for table in (symbols.HAVE, *symbols.UNSUPPORTED.values())
        for names in table.values()
        for name in names.split()
    ]

    assert len(listed) == len(set(listed))
    assert {"ibv_get_device_list", "ibv_reg_mr_iova2", "verbs_register_driver_34"} <= {*listed}


@pytest.mark.parametrize(
    ("library", "tables"),
    [
        (VERBS, (symbols.HAVE, *symbols.UNSUPPORTED.values())),
        (CM, (symbols.CM_HAVE, *symbols.CM_UNSUPPORTED.values())),
    ],
    ids=["verbs", "connection manager"],
)
def test_a_library_exports_each_symbol_at_its_version(libraries, library, tables):
    if shutil.which("nm") is None:
        pytest.skip("needs a package: binutils, of nm")
    words = ["nm", "-D", "--defined-only", "--with-symbol-versions"]
    out = subprocess.run(
        [*words, str(libraries / library)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 0, out.stderr
    found = set(re.findall(r" T (\S+)@@(\S+)", out.stdout))
    wanted = {
        (name, version)
        for table in tables
        for version, names in table.items()
        for name in names.split()
    }

    assert wanted <= found
