"""What the library exports, by the version that programs are linked with: names of the public ABI.

``HAVE`` are written in C.  The others are there so that programs load: what libraries of makers are
bound to, and calls for what no device here has.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HAVE = {
    "IBVERBS_1.0": """
        ibv_create_comp_channel ibv_destroy_comp_channel ibv_get_sysfs_path ibv_rate_to_mult
        ibv_read_sysfs_file mult_to_ibv_rate
    """,
    "IBVERBS_1.1": """
        ibv_ack_async_event ibv_ack_cq_events ibv_alloc_pd ibv_attach_mcast ibv_close_device
        ibv_create_ah ibv_detach_mcast
        ibv_create_ah_from_wc ibv_create_cq ibv_create_qp ibv_create_srq ibv_dealloc_pd
        ibv_dereg_mr ibv_destroy_ah ibv_destroy_cq ibv_destroy_qp ibv_destroy_srq
        ibv_dofork_range ibv_dontfork_range ibv_event_type_str ibv_fork_init
        ibv_free_device_list ibv_get_async_event ibv_get_cq_event ibv_get_device_guid
        ibv_get_device_list ibv_get_device_name ibv_init_ah_from_wc ibv_modify_qp ibv_modify_srq
        ibv_node_type_str ibv_open_device ibv_port_state_str ibv_query_device ibv_query_gid
        ibv_query_pkey ibv_query_port ibv_query_qp ibv_query_srq ibv_rate_to_mbps ibv_reg_mr
        ibv_rereg_mr ibv_resize_cq ibv_wc_status_str mbps_to_ibv_rate
    """,
    "IBVERBS_1.5": """
        ibv_get_pkey_index
    """,
    "IBVERBS_1.6": """
        ibv_qp_to_qp_ex
    """,
    "IBVERBS_1.7": """
        ibv_reg_mr_iova
    """,
    "IBVERBS_1.8": """
        ibv_reg_mr_iova2
    """,
    "IBVERBS_1.9": """
        ibv_get_device_index
    """,
    "IBVERBS_1.10": """
        ibv_query_ece ibv_set_ece
    """,
    "IBVERBS_1.11": """
        _ibv_query_gid_ex _ibv_query_gid_table
    """,
    "IBVERBS_1.13": """
        ibv_is_fork_initialized
    """,
    "IBVERBS_1.14": """
        ibv_query_qp_data_in_order
    """,
    "IBVERBS_PRIVATE_34": """
        ibv_query_gid_type
    """,
}

# By what a call does that is not supported: answer EOPNOTSUPP, hand out no object, or nothing.
UNSUPPORTED = {
    "WITHOUT": {
        "IBVERBS_1.1": """
            ibv_resolve_eth_l2_from_gid
        """,
        "IBVERBS_PRIVATE_34": """
            __ioctl_final_num_attrs execute_ioctl ibv_cmd_advise_mr ibv_cmd_alloc_dm
            ibv_cmd_alloc_mw ibv_cmd_alloc_pd ibv_cmd_attach_mcast ibv_cmd_close_xrcd
            ibv_cmd_create_ah ibv_cmd_create_counters ibv_cmd_create_cq ibv_cmd_create_cq_ex
            ibv_cmd_create_flow ibv_cmd_create_flow_action_esp ibv_cmd_create_qp
            ibv_cmd_create_qp_ex ibv_cmd_create_qp_ex2 ibv_cmd_create_rwq_ind_table
            ibv_cmd_create_srq ibv_cmd_create_srq_ex ibv_cmd_create_wq ibv_cmd_dealloc_mw
            ibv_cmd_dealloc_pd ibv_cmd_dereg_mr ibv_cmd_destroy_ah ibv_cmd_destroy_counters
            ibv_cmd_destroy_cq ibv_cmd_destroy_flow ibv_cmd_destroy_flow_action ibv_cmd_destroy_qp
            ibv_cmd_destroy_rwq_ind_table ibv_cmd_destroy_srq ibv_cmd_destroy_wq
            ibv_cmd_detach_mcast ibv_cmd_free_dm ibv_cmd_get_context ibv_cmd_modify_cq
            ibv_cmd_modify_flow_action_esp ibv_cmd_modify_qp ibv_cmd_modify_qp_ex ibv_cmd_modify_srq
            ibv_cmd_modify_wq ibv_cmd_open_qp ibv_cmd_open_xrcd ibv_cmd_poll_cq ibv_cmd_post_recv
            ibv_cmd_post_send ibv_cmd_post_srq_recv ibv_cmd_query_context ibv_cmd_query_device_any
            ibv_cmd_query_mr ibv_cmd_query_port ibv_cmd_query_qp ibv_cmd_query_srq
            ibv_cmd_read_counters ibv_cmd_reg_dm_mr ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr
            ibv_cmd_req_notify_cq ibv_cmd_rereg_mr ibv_cmd_resize_cq ibv_read_ibdev_sysfs_file
            verbs_allow_disassociate_destroy
        """,
    },
    "WITHOUT_OBJECT": {
        "IBVERBS_1.10": """
            ibv_import_device ibv_import_mr ibv_import_pd
        """,
        "IBVERBS_1.12": """
            ibv_reg_dmabuf_mr
        """,
        "IBVERBS_1.13": """
            ibv_import_dm
        """,
        "IBVERBS_PRIVATE_34": """
            _verbs_init_and_alloc_context verbs_open_device
        """,
    },
    "QUIETLY": {
        "IBVERBS_1.0": """
            ibv_copy_path_rec_from_kern ibv_copy_path_rec_to_kern ibv_copy_qp_attr_from_kern
        """,
        "IBVERBS_1.1": """
            ibv_copy_ah_attr_from_kern ibv_register_driver
        """,
        "IBVERBS_1.10": """
            ibv_unimport_mr ibv_unimport_pd
        """,
        "IBVERBS_1.13": """
            ibv_unimport_dm
        """,
        "IBVERBS_PRIVATE_34": """
            __verbs_log verbs_init_cq verbs_register_driver_34 verbs_set_ops verbs_uninit_context
        """,
    },
}


# Between the two libraries of one build.
OWN = {"NICSCOPE_LIVE": "live_ask_machine live_fact live_device live_is_there live_await_end"}

CM_HAVE = {
    "RDMACM_1.0": """
        rdma_accept rdma_ack_cm_event rdma_bind_addr rdma_connect rdma_create_ep
        rdma_create_event_channel rdma_create_id rdma_create_qp rdma_create_qp_ex rdma_create_srq
        rdma_create_srq_ex rdma_destroy_ep rdma_destroy_event_channel rdma_destroy_id
        rdma_destroy_qp rdma_destroy_srq rdma_disconnect rdma_event_str
        rdma_free_devices rdma_freeaddrinfo rdma_get_cm_event rdma_get_devices rdma_get_dst_port
        rdma_get_request rdma_get_src_port rdma_getaddrinfo rdma_join_multicast
        rdma_leave_multicast rdma_listen rdma_migrate_id
        rdma_reject rdma_resolve_addr rdma_resolve_route rdma_set_option
        raccept rbind rclose rconnect rfcntl rgetpeername rgetsockname rgetsockopt riomap
        riounmap riowrite rlisten rpoll rread rreadv rrecv rrecvfrom rrecvmsg rselect rsend
        rsendmsg rsendto rsetsockopt rshutdown rsocket rwrite rwritev
    """,
    "RDMACM_1.1": "rdma_join_multicast_ex",
    "RDMACM_1.2": "rdma_establish rdma_init_qp_attr",
}
CM_UNSUPPORTED = {
    "FAILING": {
        "RDMACM_1.0": "rdma_notify",
        "RDMACM_1.3": "rdma_get_remote_ece rdma_reject_ece rdma_set_local_ece",
    },
}


def _by_version(*tables: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table in tables:
        for version, names in table.items():
            found.setdefault(version, []).extend(names.split())
    return found


def _order(version: str) -> tuple[int, list[int]]:
    kind, _, number = version.rpartition("_")
    if kind == "NICSCOPE":
        return 2, []
    return int("PRIVATE" in kind), [int(each) for each in number.split(".")]


def _script(*tables: Mapping[str, str]) -> str:
    """A linker's version script: each version is built on the one before it."""
    found = _by_version(*tables)
    first, *_ = versions = sorted(found, key=_order)
    made = [f"{first} {{ global: {'; '.join(sorted(found[first]))}; local: *; }};"]
    made += [
        f"{one} {{ global: {'; '.join(sorted(found[one]))}; }} {before};"
        for before, one in pairwise(versions)
    ]
    return "\n".join(made) + "\n"


def version_script() -> str:
    """The version script of libibverbs."""
    return _script(HAVE, *UNSUPPORTED.values(), OWN)


def cm_version_script() -> str:
    """The version script of librdmacm."""
    return _script(CM_HAVE, *CM_UNSUPPORTED.values())


def unsupported_header(kinds: Mapping[str, Mapping[str, str]]) -> str:
    """The C file of all calls that are not supported, by what they do."""
    return "".join(
        f"{kind}({name})\n"
        for kind, table in kinds.items()
        for names in table.values()
        for name in names.split()
    )
