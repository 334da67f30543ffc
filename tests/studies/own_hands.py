"""Workers that are none: whoever does all tasks in this process, as if it were several."""


class Here:
    """Two pairs of hands, of one process."""

    hands = 2

    def results(self, tasks, watch=None):
        found = []
        for task in tasks:
            told = []
            found.append(task.perform(told.append))
            assert sum(told) <= task.rows
            if watch is not None:
                watch(sum(told), task.rows)
        return found
