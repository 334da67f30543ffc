/* The public binary interface of librdmacm, as compiled programs know it; see abi.h. */
#ifndef NICSCOPE_LIVE_CM_ABI_H
#define NICSCOPE_LIVE_CM_ABI_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "abi.h"

enum {
	RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED,
	RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_RESPONSE,
	RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED,
	RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_MULTICAST_JOIN = 12
};
enum { RDMA_PS_TCP = 0x106, RDMA_PS_UDP = 0x111, RDMA_PS_IB = 0x13f, RDMA_UDP_QKEY = 0x01234567 };
enum { RAI_PASSIVE = 1, RAI_NUMERICHOST = 2, RAI_FAMILY = 8 };

struct rdma_addr {
	union { struct sockaddr src_addr; struct sockaddr_in src_sin; struct sockaddr_in6 src_sin6; struct sockaddr_storage src_storage; };
	union { struct sockaddr dst_addr; struct sockaddr_in dst_sin; struct sockaddr_in6 dst_sin6; struct sockaddr_storage dst_storage; };
	struct { union ibv_gid sgid, dgid; be16 pkey; } addr;
};

struct rdma_route { struct rdma_addr addr; void *path_rec; int num_paths; };
struct rdma_event_channel { int fd; };

struct rdma_cm_id {
	struct ibv_context *verbs;
	struct rdma_event_channel *channel;
	void *context;
	struct ibv_qp *qp;
	struct rdma_route route;
	int ps;
	uint8_t port_num;
	struct rdma_cm_event *event;
	struct ibv_comp_channel *send_cq_channel;
	struct ibv_cq *send_cq;
	struct ibv_comp_channel *recv_cq_channel;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	int qp_type;
};

struct rdma_conn_param {
	const void *private_data;
	uint8_t private_data_len, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
	uint32_t qp_num;
};

struct rdma_cm_join_mc_attr_ex { uint32_t comp_mask, join_flags; struct sockaddr *addr; };

struct rdma_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct ibv_ah_attr ah_attr;
	uint32_t qp_num, qkey;
};

struct rdma_cm_event {
	struct rdma_cm_id *id, *listen_id;
	int event, status;
	union { struct rdma_conn_param conn; struct rdma_ud_param ud; } param;
};

struct rdma_addrinfo {
	int ai_flags, ai_family, ai_qp_type, ai_port_space;
	socklen_t ai_src_len, ai_dst_len;
	struct sockaddr *ai_src_addr, *ai_dst_addr;
	char *ai_src_canonname, *ai_dst_canonname;
	size_t ai_route_len;
	void *ai_route;
	size_t ai_connect_len;
	void *ai_connect;
	struct rdma_addrinfo *ai_next;
};

#endif
