from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.tools.measures.stack_forest import depth_first


@st.composite
def forests(draw: st.DrawFn) -> list[int]:
    """Parents, -1 for none, in any numbering in which a parent comes before its children."""
    size = draw(st.integers(0, 30))
    return [draw(st.integers(-1, node - 1)) for node in range(size)]


def ancestors(parent: list[int], node: int) -> list[int]:
    return [] if parent[node] < 0 else [parent[node], *ancestors(parent, parent[node])]


def walk(parent: list[int], around: int) -> list[int]:
    """Depth-first order, siblings by number."""
    children = [node for node, above in enumerate(parent) if above == around]
    return [visited for child in children for visited in (child, *walk(parent, child))]


@given(forests())
def test_depth_first_places_are_those_of_a_recursive_walk(parent: list[int]) -> None:
    depth = np.array([len(ancestors(parent, node)) for node in range(len(parent))], np.int16)
    place = depth_first(np.array(parent, np.int32), depth)
    assert [int(node) for node in np.argsort(place)] == walk(parent, -1)


@given(forests(), st.data())
def test_in_depth_first_order_what_two_nodes_are_both_under_comes_before_the_first(
    parent: list[int], data: st.DataObject
) -> None:
    if len(parent) < 2:
        return
    depth = np.array([len(ancestors(parent, node)) for node in range(len(parent))], np.int16)
    place = depth_first(np.array(parent, np.int32), depth)
    node = st.integers(0, len(parent) - 1)
    earlier, later = sorted((data.draw(node), data.draw(node)), key=lambda n: int(place[n]))
    new = {n for n in (later, *ancestors(parent, later)) if n not in (earlier, *ancestors(parent, earlier))}
    assert new == {n for n in (later, *ancestors(parent, later)) if place[n] > place[earlier]}
