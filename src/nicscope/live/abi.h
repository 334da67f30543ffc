/* The public binary interface of libibverbs, as compiled programs know it: written down here so that
 * building needs no package of headers.  tests/live compares every size and offset with the header
 * of rdma-core where that is installed.  Names are the interface's own. */
#ifndef NICSCOPE_LIVE_ABI_H
#define NICSCOPE_LIVE_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint16_t be16;
typedef uint32_t be32;
typedef uint64_t be64;
typedef void (*ibv_unused)(void); /* a place that nothing here fills */

enum { IBV_SYSFS_NAME_MAX = 64, IBV_SYSFS_PATH_MAX = 256 };
#define IBV_EXTENDED ((void *)UINTPTR_MAX) /* in abi_compat: the context is part of a verbs_context */

union ibv_gid {
	uint8_t raw[16];
	struct { be64 subnet_prefix, interface_id; } global;
};

struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index, port_num, gid_type, ndev_ifindex;
};

struct ibv_device {
	ibv_unused _ops[2];
	int node_type, transport_type;
	char name[IBV_SYSFS_NAME_MAX], dev_name[IBV_SYSFS_NAME_MAX];
	char dev_path[IBV_SYSFS_PATH_MAX], ibdev_path[IBV_SYSFS_PATH_MAX];
};

struct ibv_device_attr {
	char fw_ver[64];
	be64 node_guid, sys_image_guid;
	uint64_t max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	unsigned device_cap_flags;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom;
	int atomic_cap;
	int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
	int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	int max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask;
	struct { uint64_t general_caps; uint32_t transport_caps[3]; } odp_caps;
	uint64_t completion_timestamp_mask, hca_core_clock, device_cap_flags_ex;
	uint32_t tso_caps[2];
	struct { uint32_t caps[3]; uint64_t fields; uint8_t function; } rss_caps;
	uint32_t max_wq_type_rq;
	uint32_t packet_pacing_caps[3];
	uint32_t raw_packet_caps;
	uint32_t tm_caps[5];
	uint16_t cq_mod_caps[2];
	uint64_t max_dm_size;
	uint16_t pci_atomic_caps[3];
	uint32_t xrc_odp_caps, phys_port_cnt_ex;
};

struct ibv_port_attr {
	int state, max_mtu, active_mtu, gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply;
	uint8_t active_width, active_speed, phys_state, link_layer, flags;
	uint16_t port_cap_flags2;
};

struct ibv_async_event {
	union { struct ibv_cq *cq; struct ibv_qp *qp; struct ibv_srq *srq; int port_num; } element;
	int event_type;
};

struct ibv_wc {
	uint64_t wr_id;
	int status, opcode;
	uint32_t vendor_err, byte_len;
	be32 imm_data; /* or the key that was invalidated */
	uint32_t qp_num, src_qp;
	unsigned wc_flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};

struct ibv_pd { struct ibv_context *context; uint32_t handle; };
struct ibv_xrcd { struct ibv_context *context; };

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct ibv_mw { struct ibv_context *context; struct ibv_pd *pd; uint32_t rkey, handle; int type; };

struct ibv_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr, length;
	unsigned mw_access_flags;
};

struct ibv_mw_bind { uint64_t wr_id; unsigned send_flags; struct ibv_mw_bind_info bind_info; };

struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class;
};

struct ibv_grh {
	be32 version_tclass_flow;
	be16 paylen;
	uint8_t next_hdr, hop_limit;
	union ibv_gid sgid, dgid;
};

struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct ibv_ah { struct ibv_context *context; struct ibv_pd *pd; uint32_t handle; };

struct ibv_srq_attr { uint32_t max_wr, max_sge, srq_limit; };
struct ibv_srq_init_attr { void *srq_context; struct ibv_srq_attr attr; };

struct ibv_srq_init_attr_ex {
	void *srq_context;
	struct ibv_srq_attr attr;
	uint32_t comp_mask;
	int srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	uint32_t tm_cap[2];
};

struct ibv_xrcd_init_attr { uint32_t comp_mask; int fd, oflags; };

struct ibv_qp_cap { uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data; };

struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	int qp_type, sq_sig_all;
};

struct ibv_qp_init_attr_ex {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	int qp_type, sq_sig_all;
	uint32_t comp_mask;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t create_flags;
	uint16_t max_tso_header;
	void *rwq_ind_tbl;
	struct { uint8_t function, key_len; uint8_t *key; uint64_t fields; } rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags;
};

struct ibv_qp_open_attr {
	uint32_t comp_mask, qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	int qp_type;
};

struct ibv_qp_attr {
	int qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	unsigned qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint32_t rate_limit;
};

struct ibv_data_buf { void *addr; size_t length; };
struct ibv_sge { uint64_t addr; uint32_t length, lkey; };

struct ibv_send_wr {
	uint64_t wr_id;
	struct ibv_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge, opcode;
	unsigned send_flags;
	be32 imm_data; /* or the key to invalidate */
	union {
		struct { uint64_t remote_addr; uint32_t rkey; } rdma;
		struct { uint64_t remote_addr, compare_add, swap; uint32_t rkey; } atomic;
		struct { struct ibv_ah *ah; uint32_t remote_qpn, remote_qkey; } ud;
	} wr;
	union { struct { uint32_t remote_srqn; } xrc; } qp_type;
	union {
		struct { struct ibv_mw *mw; uint32_t rkey; struct ibv_mw_bind_info bind_info; } bind_mw;
		struct { void *hdr; uint16_t hdr_sz, mss; } tso;
	} further;
};

struct ibv_recv_wr { uint64_t wr_id; struct ibv_recv_wr *next; struct ibv_sge *sg_list; int num_sge; };

struct ibv_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle, qp_num;
	int state, qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct ibv_qp_ex {
	struct ibv_qp qp_base;
	uint64_t comp_mask, wr_id;
	unsigned wr_flags;
	void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t, uint64_t);
	void (*wr_atomic_fetch_add)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t);
	void (*wr_bind_mw)(struct ibv_qp_ex *, struct ibv_mw *, uint32_t, const struct ibv_mw_bind_info *);
	void (*wr_local_inv)(struct ibv_qp_ex *, uint32_t);
	void (*wr_rdma_read)(struct ibv_qp_ex *, uint32_t, uint64_t);
	void (*wr_rdma_write)(struct ibv_qp_ex *, uint32_t, uint64_t);
	void (*wr_rdma_write_imm)(struct ibv_qp_ex *, uint32_t, uint64_t, be32);
	void (*wr_send)(struct ibv_qp_ex *);
	void (*wr_send_imm)(struct ibv_qp_ex *, be32);
	void (*wr_send_inv)(struct ibv_qp_ex *, uint32_t);
	void (*wr_send_tso)(struct ibv_qp_ex *, void *, uint16_t, uint16_t);
	void (*wr_set_ud_addr)(struct ibv_qp_ex *, struct ibv_ah *, uint32_t, uint32_t);
	void (*wr_set_xrc_srqn)(struct ibv_qp_ex *, uint32_t);
	void (*wr_set_inline_data)(struct ibv_qp_ex *, void *, size_t);
	void (*wr_set_inline_data_list)(struct ibv_qp_ex *, size_t, const struct ibv_data_buf *);
	void (*wr_set_sge)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t);
	void (*wr_set_sge_list)(struct ibv_qp_ex *, size_t, const struct ibv_sge *);
	void (*wr_start)(struct ibv_qp_ex *);
	int (*wr_complete)(struct ibv_qp_ex *);
	void (*wr_abort)(struct ibv_qp_ex *);
	void (*wr_atomic_write)(struct ibv_qp_ex *, uint32_t, uint64_t, const void *);
};

struct ibv_comp_channel { struct ibv_context *context; int fd, refcnt; };

struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed, async_events_completed;
};

struct ibv_poll_cq_attr { uint32_t comp_mask; };

struct ibv_cq_ex {
	struct ibv_cq base; /* the same fields, one by one, in the interface's own header */
	uint32_t comp_mask;
	int status;
	uint64_t wr_id;
	int (*start_poll)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
	int (*next_poll)(struct ibv_cq_ex *);
	void (*end_poll)(struct ibv_cq_ex *);
	int (*read_opcode)(struct ibv_cq_ex *);
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *);
	be32 (*read_imm_data)(struct ibv_cq_ex *);
	uint32_t (*read_qp_num)(struct ibv_cq_ex *);
	uint32_t (*read_src_qp)(struct ibv_cq_ex *);
	unsigned (*read_wc_flags)(struct ibv_cq_ex *);
	uint32_t (*read_slid)(struct ibv_cq_ex *);
	uint8_t (*read_sl)(struct ibv_cq_ex *);
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *);
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *);
	uint16_t (*read_cvlan)(struct ibv_cq_ex *);
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *);
	void (*read_tm_info)(struct ibv_cq_ex *, void *);
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *);
};

struct ibv_cq_init_attr_ex {
	uint32_t cqe;
	void *cq_context;
	struct ibv_comp_channel *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask, flags;
	struct ibv_pd *parent_domain;
};

struct ibv_context_ops {
	ibv_unused _query[7];
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *, int);
	int (*bind_mw)(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
	int (*dealloc_mw)(struct ibv_mw *);
	ibv_unused _create_cq;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*req_notify_cq)(struct ibv_cq *, int);
	ibv_unused _cq[7];
	int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	ibv_unused _qp[4];
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	ibv_unused _rest[5];
};

struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	int cmd_fd, async_fd, num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat;
};

/* It grows at its beginning, so what programs find in it they find by its end. */
struct verbs_context {
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t);
	ibv_unused advise_mr, alloc_null_mr;
	ibv_unused counters[4];
	ibv_unused dm[3];
	ibv_unused esp[3];
	ibv_unused modify_qp_rate_limit;
	ibv_unused domains[3];
	ibv_unused modify_cq, post_srq_ops;
	ibv_unused work_queues[5];
	ibv_unused query_rt_values;
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	void *priv;
	int (*query_device_ex)(struct ibv_context *, const void *, struct ibv_device_attr_ex *, size_t);
	ibv_unused flows[4];
	struct ibv_qp *(*open_qp)(struct ibv_context *, struct ibv_qp_open_attr *);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
	int (*get_srq_num)(struct ibv_srq *, uint32_t *);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *, struct ibv_srq_init_attr_ex *);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *, struct ibv_xrcd_init_attr *);
	int (*close_xrcd)(struct ibv_xrcd *);
	uint64_t _placeholder;
	size_t sz;
	struct ibv_context context;
};

#endif
