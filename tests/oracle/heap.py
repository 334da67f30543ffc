"""A heap as a list of its pieces in order, each with its size in words and whether it is free."""

HEADER = 4


class HeapTwin:
    def __init__(self, words):
        self.pieces = [(words - HEADER, True)]

    def places(self):
        """Where each piece's header is."""
        return [sum(size + HEADER for size, _ in self.pieces[:i]) for i in range(len(self.pieces))]

    def free_places(self):
        return [place for place, (_, free) in zip(self.places(), self.pieces, strict=True) if free]

    def allocate(self, words):
        """The first word behind the header, and the headers that are looked at."""
        words = (words + 1) // 2 * 2
        fits = next(i for i, (size, free) in enumerate(self.pieces) if free and size >= words)
        place, size = self.places()[fits], self.pieces[fits][0]
        seen = [each for each in self.free_places() if each <= place]
        rest = size - words - HEADER
        if size - words > 8:
            self.pieces[fits : fits + 1] = [(words, False), (rest, True)]
        else:
            self.pieces[fits] = (size, False)
        return place + HEADER, seen

    def free(self, word):
        """The headers that are passed."""
        places = self.places()
        this = places.index(word - HEADER)
        free = [i for i, (_, is_free) in enumerate(self.pieces) if is_free]
        first = min([this, *free])
        last = min([i for i in free if i > this], default=len(places) - 1)
        self.pieces[this] = (self.pieces[this][0], True)
        for left in (this, this - 1):  # with the one behind, then with the one before
            pair = self.pieces[left : left + 2] if left >= 0 else []
            if len(pair) == 2 and pair[0][1] and pair[1][1]:
                self.pieces[left : left + 2] = [(pair[0][0] + HEADER + pair[1][0], True)]
        return places[first : last + 1]
