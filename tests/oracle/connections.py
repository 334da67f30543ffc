"""Threads that post to one NIC, with lists and dictionaries: the twin of ``drivers.simulate``."""

POST, CREDITED, LOCKED, RUNG, WAIT, TAKE = "post", "credited", "locked", "rung", "wait", "take"


class Kept:
    """Keys in slots; who leaves for another is the oldest, or the one that ``draw`` names."""

    def __init__(self, slots, draw=None):
        self.slots = [None] * slots
        self.free = list(range(slots))  # the next is at the end
        self.free.reverse()
        self.by_use = []  # slots, the one used last at the end
        self.draw = draw
        self.draws = 0

    def use(self, key):
        if key not in self.slots:
            return False
        slot = self.slots.index(key)
        self.by_use.remove(slot)
        self.by_use.append(slot)
        return True

    def bring(self, key):
        if not self.slots:
            return
        if self.free:
            slot = self.free.pop()
        elif self.draw is None:
            slot = self.by_use.pop(0)
        else:
            slot = self.draw(self.draws, len(self.slots))
            self.draws += 1
            self.by_use.remove(slot)
        self.slots[slot] = key
        self.by_use.append(slot)

    def leave(self, key):
        if key in self.slots:
            slot = self.slots.index(key)
            self.by_use.remove(slot)
            self.slots[slot] = None
            self.free.append(slot)


class Nic:
    """The whole: ``costs`` by name, in ps; ``registers`` None, or (own, shared)."""

    def __init__(
        self, costs, threads, pairs, outstanding, registers, contexts, requests, draw, budget=None
    ):
        self.costs = costs
        self.threads = [
            {"stage": POST, "at": costs["post_ps"], "posted": 0, "done": 0, "turns": 0}
            for _ in range(threads)
        ]
        self.pairs, self.outstanding, self.registers = pairs, outstanding, registers
        self.contexts = Kept(min(contexts, pairs), draw)
        self.requests = Kept(min(requests, threads * outstanding), draw)
        self.locks = {}  # name: [free at, holder, those who are at it]
        self.posts, self.fetched, self.answers = [], [], []  # (arrival, operation)
        self.fetch_free = self.execute_free = self.now = 0
        self.credits = threads * outstanding if budget is None else budget
        self.starved = []  # threads, the one that has waited longest first
        self.on_way = [0] * pairs
        self.held_back = [[] for _ in range(pairs)]  # (since, operation)
        self.pair_of, self.began = {}, {}
        self.counts = dict.fromkeys(
            ("operations", "work_request_misses", "context_lookups", "context_misses"), 0
        )
        self.counts |= dict.fromkeys(
            ("executing_ps", "refetching_ps", "contexts_ps", "locked_ps", "windowed_ps", "nic_ps"),
            0,
        )

    def pairs_of(self, thread):
        if self.pairs < len(self.threads):
            return [thread % self.pairs]
        return list(range(thread, self.pairs, len(self.threads)))

    def register_of(self, pair):
        if self.registers is None:
            return pair
        own, shared = self.registers
        return pair if pair < own else own + (pair - own) % shared

    def hold(self, name, thread):
        free, holder, there = self.locks.get(name, (0, None, 0))
        slower = min(there, self.costs["waiters"]) * self.costs["waiter_ps"]
        if holder != thread:
            slower += self.costs["moved_ps"]
        begin = max(self.now, free)
        self.counts["locked_ps"] += begin - self.now + slower
        free = begin + self.costs["doorbell_ps"] + slower
        self.locks[name] = (free, thread, there + 1)
        return free

    def release(self, name):
        free, holder, there = self.locks[name]
        self.locks[name] = (free, holder, there - 1)

    def events(self):
        found = [(one["at"], number) for number, one in enumerate(self.threads) if one["at"]]
        many = len(self.threads)
        queues = (
            (self.posts, self.fetch_free),
            (self.fetched, self.execute_free),
            (self.answers, self.execute_free),
        )
        for place, (queue, free) in enumerate(queues):
            if queue:
                found.append((max(queue[0][0], free), many + place))
        return found

    def run(self, operations):
        while self.counts["operations"] < operations:
            self.now, which = min(self.events())
            many = len(self.threads)
            if which < many:
                self.move(which)
            else:
                (self.fetch, self.execute, self.answer)[which - many]()

    def move(self, number):
        one = self.threads[number]
        operation = number * self.outstanding + one["posted"]
        if one["stage"] == POST and not self.credits:
            one["stage"], one["at"] = CREDITED, None
            self.starved.append(number)
        elif one["stage"] in (POST, CREDITED):
            self.credits -= one["stage"] == POST
            own = self.pairs_of(number)
            pair = self.pair_of[operation] = own[one["turns"] % len(own)]
            one["turns"] += 1
            if self.pairs < len(self.threads):
                one["stage"], one["at"] = LOCKED, self.hold(("pair", pair), number)
            else:
                self.ring(number, pair)
        elif one["stage"] == LOCKED:
            pair = self.pair_of[operation]
            self.release(("pair", pair))
            self.ring(number, pair)
        elif one["stage"] == RUNG:
            self.release(("register", self.register_of(self.pair_of[operation])))
            self.began[operation] = self.now
            self.posts.append((self.now, operation))
            one["posted"] += 1
            if one["posted"] < self.outstanding:
                one["stage"], one["at"] = POST, self.now + self.costs["post_ps"]
            else:
                one["stage"], one["at"] = WAIT, None
                self.look(one, self.now)
        else:
            one["posted"] = one["done"] = 0
            one["stage"], one["at"] = POST, self.now + self.costs["post_ps"]

    def ring(self, number, pair):
        one = self.threads[number]
        one["stage"], one["at"] = RUNG, self.hold(("register", self.register_of(pair)), number)

    def look(self, one, now):
        if one["stage"] == WAIT and one["done"] == self.outstanding:
            one["stage"] = TAKE
            one["at"] = now + self.outstanding * self.costs["completion_ps"]

    def fetch(self):
        _, operation = self.posts.pop(0)
        self.fetch_free = self.now + self.costs["fetch_ps"]
        self.requests.bring(operation)
        self.fetched.append((self.fetch_free + self.costs["fetch_latency_ps"], operation))

    def execute(self):
        _, operation = self.fetched.pop(0)
        pair = self.pair_of[operation]
        if self.on_way[pair] < self.costs["window"]:
            self.send(operation, self.now)
        else:
            self.held_back[pair].append((self.now, operation))

    def context(self, pair):
        self.counts["context_lookups"] += 1
        if self.contexts.use(pair):
            return 0
        self.contexts.bring(pair)
        self.counts["context_misses"] += 1
        self.counts["contexts_ps"] += self.costs["context_ps"]
        return self.costs["context_ps"]

    def request(self, operation):
        if self.requests.use(operation):
            return 0
        self.requests.bring(operation)
        self.counts["work_request_misses"] += 1
        self.counts["refetching_ps"] += self.costs["fetch_ps"]
        return self.costs["fetch_ps"]

    def send(self, operation, now):
        pair = self.pair_of[operation]
        self.on_way[pair] += 1
        takes = self.costs["execute_ps"] + self.context(pair) + self.request(operation)
        self.counts["executing_ps"] += self.costs["execute_ps"]
        self.execute_free = max(now, self.execute_free) + takes
        self.answers.append((self.execute_free + self.costs["answer_ps"], operation))

    def answer(self):
        _, operation = self.answers.pop(0)
        pair = self.pair_of[operation]
        takes = self.context(pair) + self.request(operation)
        self.requests.leave(operation)
        end = self.execute_free = self.now + takes
        self.counts["operations"] += 1
        self.counts["nic_ps"] += end - self.began[operation]
        if self.starved:
            self.threads[self.starved.pop(0)]["at"] = end
        else:
            self.credits += 1
        one = self.threads[operation // self.outstanding]
        one["done"] += 1
        self.look(one, end)
        self.on_way[pair] -= 1
        if self.held_back[pair]:
            since, waiting = self.held_back[pair].pop(0)
            self.counts["windowed_ps"] += end - since
            self.send(waiting, end)
