"""Two ends send each other a counter, which either adds to.

Run it with ``nicscope verbs run examples/verbs/pingpong.py [ROUNDS]``.
"""

from ends import argument, joined

SIZE = 64


def main():
    rounds = argument(1, 10)
    left, right = joined(SIZE, SIZE)
    left.mr.write((0).to_bytes(8, "little"), 8)
    for _ in range(rounds):
        for here, there in ((left, right), (right, left)):
            there.receive(SIZE)
            here.send(SIZE)
            here.wait()
            there.wait()
            count = int.from_bytes(there.mr.read(8, 0), "little") + 1
            there.mr.write(count.to_bytes(8, "little"), 8)
    print(f"{rounds} rounds: the counter is {int.from_bytes(left.mr.read(8, 0), 'little')}")


if __name__ == "__main__":
    main()
