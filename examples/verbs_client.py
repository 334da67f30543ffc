"""Send a server on another node 64 bytes, and wait for its answer, several times.

Run it with its server: ``nicscope verbs run --node 0 examples/verbs_server.py
--node 1 "examples/verbs_client.py 10.0.0.1 [ROUNDS]"``.
"""

import socket
import sys

from verbs_server import PORT, End


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    link = socket.create_connection((sys.argv[1], PORT)).makefile("rw")
    link.write(f"{rounds}\n")
    link.flush()
    end = End()
    end.connect(link)
    assert link.readline() == "ready\n"
    for _ in range(rounds):
        end.receive()
        end.send("ping")
        end.wait()  # until the question has arrived
        end.wait()  # for the answer
    print(f"{rounds} rounds, the last answer was", end.mr.read(4, 0).decode())


if __name__ == "__main__":
    main()
