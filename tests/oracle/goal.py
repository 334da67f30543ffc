"""GOAL's text read word by word: slow and obvious."""

import re


def words_of(text):
    """Its words, each with the number of the line that it stands on, without comments."""
    kept = re.sub(r"//[^\n]*", "", text)
    kept = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n") or " ", kept, flags=re.S)
    for number, line in enumerate(kept.split("\n"), 1):
        for word in re.findall(r"-?\d+|\w+|[{}:]", line):
            yield number, word


def lines_of(text):
    """Lists of the words of each line that has any."""
    lines = {}
    for number, word in words_of(text):
        lines.setdefault(number, []).append(word)
    return list(lines.values())


def read_goal(text):
    """By rank: its operations as (kind, size, peer, tag), and pairs of who requires whom."""
    ranks, rank = {}, None
    for words in lines_of(text):
        if words[0] == "num_ranks":
            ranks = {number: ([], set(), set(), {}) for number in range(int(words[1]))}
        elif words[0] == "rank":
            rank = int(words[1])
        elif words[0] == "}":
            rank = None
        else:
            _take(words, *ranks[rank])
    return {
        number: (
            operations,
            {(labels[one], labels[other]) for one, other in ended},
            {(labels[one], labels[other]) for one, other in begun},
        )
        for number, (operations, ended, begun, labels) in ranks.items()
    }


def _take(words, operations, ended, begun, labels):
    if words[1] == "requires":
        ended.add((words[0], words[2]))
        return
    if words[1] == "irequires":
        begun.add((words[0], words[2]))
        return
    if words[1] == ":":
        labels[words[0]] = len(operations)
        words = words[2:]
    if words[0] == "calc":
        operations.append(("calc", int(words[1]), None, 0))
        return
    kind, rest = words[0], [word for word in words[1:] if word != "b"]
    size = int(re.match(r"\d+", rest[0])[0])
    at = rest.index("to") if "to" in rest else rest.index("from")
    tag = int(rest[rest.index("tag") + 1]) if "tag" in rest else 0
    operations.append((kind, size, int(rest[at + 1]), tag))
