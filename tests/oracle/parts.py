"""The parts of a message's latency as one would first count them: picosecond by picosecond."""

from nicscope.studies.latency import Part


def parted(spans, begun, seen):
    """By ``Part``: at each picosecond the highest of what is under way, the first of equals."""
    sums = [0] * len(Part)
    for now in range(begun, seen):
        part, highest = Part.WAIT, None
        for span in spans:
            if span.start <= now < span.end and (highest is None or span.rank > highest):
                part, highest = span.part, span.rank
        sums[part] += 1
    return sums
