"""The same pages read by RDMA twice: pinned when they are registered, or mapped when first used.

Run it with ``nicscope verbs run examples/verbs/on_demand.py [PAGES]``.  On a device without paging
on demand only the first half runs.
"""

import hashlib

from ends import ALL, End, argument
from pyverbs.libibverbs_enums import ibv_access_flags, ibv_odp_general_caps, ibv_wr_opcode

PAGE = 4096


def read_all(rights, pages):
    """Read what the peer has registered with these rights, page after page; a digest of it."""
    left, right = End(PAGE), End(pages * PAGE, rights)
    left.connect(right)
    right.connect(left)
    for number in range(pages):
        right.mr.write(bytes([number % 251]) * PAGE, PAGE, number * PAGE)
    digest = hashlib.sha256()
    for _ in range(2):
        for number in range(pages):
            wr = left.request(PAGE, opcode=ibv_wr_opcode.IBV_WR_RDMA_READ)
            wr.set_wr_rdma(right.mr.rkey, right.mr.buf + number * PAGE)
            left.qp.post_send(wr)
            left.wait()
            digest.update(left.mr.read(PAGE, 0))
    return digest.hexdigest()


def main():
    pages = argument(1, 6)
    pinned = read_all(ALL, pages)
    print(f"pinned: {pages} pages twice, {pinned[:16]}")
    caps = End(PAGE).context.query_device_ex().odp_caps
    if not caps.general_caps & ibv_odp_general_caps.IBV_ODP_SUPPORT:
        print("on demand: this device cannot")
        return
    on_demand = read_all(ALL | ibv_access_flags.IBV_ACCESS_ON_DEMAND, pages)
    assert on_demand == pinned
    print(f"on demand: the same, {on_demand[:16]}")


if __name__ == "__main__":
    main()
