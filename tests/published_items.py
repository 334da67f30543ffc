"""Items of the papers in the catalog, by what is done with them."""

from nicscope.studies.reproduce.harness import load_papers


def _names(is_one):
    return {
        (key, name)
        for key, paper in load_papers().items()
        for name, item in paper.items.items()
        if is_one(item)
    }


def experiment_names():
    """(paper, id) of every experiment."""
    return _names(lambda item: item.has_expectations() and not item.study)


def study_names():
    """(paper, id) of every study."""
    return _names(lambda item: item.study)
