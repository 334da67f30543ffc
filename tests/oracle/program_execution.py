"""A program trace carried out row by row, in any order that its waits allow: slow and obvious."""

from collections import defaultdict, deque

from nicscope.traces.programs.schema import Operation


class Execution:
    """Of one trace; who is next is ``choose``'s, given what may happen."""

    def __init__(self, trace, choose):
        self.trace = trace
        self.choose = choose
        self.begun, self.ended = set(), set()
        self.asked = defaultdict(deque)  # rows that ask for a lock, or hold it, in their order
        self.come = defaultdict(list)  # rows at a barrier, by its name and how often it was met
        self.process = trace.process_of_rows().tolist()
        self.times = self._times()

    def run(self):
        """Rows in the order in which they ended; fewer than all if they wait for each other."""
        order = []
        while True:
            may = [(row, "begin") for row in self._next() if self._may_begin(row)]
            may += [(row, "end") for row in self.begun - self.ended if self._may_end(row)]
            if not may:
                return order
            row, what = self.choose(sorted(may))
            if what == "begin":
                self._begin(row)
            else:
                self.ended.add(row)
                order.append(row)
                if self.trace.operation[row] == Operation.UNLOCK:
                    self.asked[self.trace.name[row]].popleft()

    def _next(self):
        return [row for row in range(self.trace.rows) if row not in self.begun]

    def _may_begin(self, row):
        trace, first = self.trace, int(self.trace.first[self.process[row]])
        ended = self._listed(trace.after_others, row)
        begun = self._listed(trace.after_start_others, row)
        if trace.after is None:
            ended += [row - 1] if row > first else []
        else:
            ended += [first + place for place in self._listed(trace.after, row)]
        begun += [first + place for place in self._listed(trace.after_start, row)]
        return self.ended.issuperset(ended) and self.begun.issuperset(begun)

    def _listed(self, waits, row):
        return [] if waits is None else waits[1][waits.first[row] : waits.first[row + 1]].tolist()

    def _begin(self, row):
        self.begun.add(row)
        if self.trace.operation[row] == Operation.LOCK:
            self.asked[self.trace.name[row]].append(row)
        if self.trace.operation[row] == Operation.BARRIER:
            self.come[self.trace.name[row], self.times[row]].append(row)

    def _may_end(self, row):
        name = self.trace.name[row]
        if self.trace.operation[row] == Operation.LOCK:
            return self.asked[name][0] == row
        if self.trace.operation[row] == Operation.BARRIER:
            return len(self.come[name, self.times[row]]) == self.members[name]
        return True

    def _times(self):
        """How often the process of each barrier's row came there before."""
        often, times, members = defaultdict(int), {}, defaultdict(set)
        for row in range(self.trace.rows):
            if self.trace.operation[row] == Operation.BARRIER:
                key = self.process[row], self.trace.name[row]
                times[row] = often[key]
                often[key] += 1
                members[self.trace.name[row]].add(self.process[row])
        self.members = {name: len(each) for name, each in members.items()}
        return times
