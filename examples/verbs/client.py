"""Send a server on another node messages of 64 bytes, and wait for an answer to each.

Run it with its server: ``nicscope verbs run --node 0 examples/verbs/server.py
--node 1 "examples/verbs/client.py 10.0.0.1 [ROUNDS]"``.
"""

import socket
import sys

from ends import End, argument
from server import PORT, SIZE, connect, hear, say


def main():
    rounds = argument(2, 10)
    with socket.create_connection((sys.argv[1], PORT)) as made, made.makefile("rw") as link:
        say(link, rounds)
        end = End(SIZE)
        connect(end, link)
        hear(link)  # the server has a receive waiting
        for _ in range(rounds):
            end.receive(SIZE)
            end.mr.write(b"ping", 4)
            end.send(SIZE)
            end.wait()  # until the question has arrived,
            end.wait()  # and for the answer
        hear(link)  # the server knows that its answers have arrived
    print(f"{rounds} rounds, the last answer was", end.mr.read(4, 0).decode())


if __name__ == "__main__":
    main()
