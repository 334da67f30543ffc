"""A library's cache of registered regions as a plain list, from the words of its manuals."""


class Cache:
    def __init__(self, alignment, merges, most_regions, most_bytes):
        self.alignment, self.merges = alignment, merges
        self.most_regions, self.most_bytes = most_regions, most_bytes
        self.regions = []  # (begin, end), the one used last at the end
        self.hits = self.registrations = self.registered = 0
        self.evicted = self.overlapped = self.uncached = self.deregistered = 0
        self.pages = 0  # registered

    def use(self, address, length):
        begin, end = address, address + length
        for region in self.regions:
            if region[0] <= begin and end <= region[1]:
                self.hits += 1
                self.regions.remove(region)
                self.regions.append(region)
                return
        begin = begin // self.alignment * self.alignment
        end = -(-end // self.alignment) * self.alignment
        others = [each for each in self.regions if each[0] < end and begin < each[1]]
        for each in others:
            self._drop(each)
            self.overlapped += 1
        if self.merges:
            begin = min([begin, *(each[0] for each in others)])
            end = max([end, *(each[1] for each in others)])
        self.registrations += 1
        self.registered += end - begin
        self.pages += len({byte // 4096 for byte in range(begin, end)})
        if end - begin > self.most_bytes or self.most_regions == 0:
            self.uncached += 1
            self.deregistered += end - begin
            return
        while (
            len(self.regions) >= self.most_regions
            or sum(b - a for a, b in self.regions) + end - begin > self.most_bytes
        ):
            self._drop(self.regions[0])
            self.evicted += 1
        self.regions.append((begin, end))

    def _drop(self, region):
        self.regions.remove(region)
        self.deregistered += region[1] - region[0]
