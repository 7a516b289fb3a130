"""Berry 1995, sections 2.1, 4.2 and 5.2: the causal timestamp library."""

from __future__ import annotations

import numpy as np
import pytest

from beforehand.clocks import PeerPolicy, Relation, VectorClock, VectorStamp
from beforehand.errors import BufferFullError, ImpossibleStampError, LocalProtocolError, NonParticipantError


def test_figure_1_each_process_knows_its_last_contact_with_every_other() -> None:
    # P1 sends to P2, P2 sends to P3; P3 has an event before and after.
    p1, p2, p3 = VectorClock("P1"), VectorClock("P2"), VectorClock("P3")

    first = p3.tick()
    sent = p1.tick()
    relayed = p2.receive(sent)
    onward = p2.tick()
    last = p3.receive(onward)

    assert sent.to_dict() == {"P1": 1}
    assert relayed.to_dict() == {"P1": 1, "P2": 1}
    assert last.to_dict() == {"P1": 1, "P2": 2, "P3": 2}
    assert sent < last
    assert first.compare(onward) is Relation.CONCURRENT


def test_figure_4_the_functions_of_the_library_give_the_stamps_of_figure_1() -> None:
    # vt_inc, vt_ts on one side; vt_merge, vt_inc, vt_ts as one step under a single lock on the other (4.2.3, vii).
    sender, receiver = VectorClock("P1"), VectorClock("P2")

    with sender.locked():
        sender.tick()
        carried = sender.stamp()
    with receiver.locked():
        receiver.merge(carried)
        receiver.tick()
        reported = receiver.stamp()

    assert reported.to_dict() == {"P1": 1, "P2": 1}
    assert carried < reported


def test_figure_2_stamps_reveal_an_overtaken_message_but_do_not_prevent_it() -> None:
    # E1 sends M1 to P3 and E4 sends M4 to P3, with E1 → E4; P3 takes M4 first.
    p1, p2, p3 = VectorClock("P1"), VectorClock("P2"), VectorClock("P3")
    m1 = p1.tick()
    m2 = p1.tick()
    p2.receive(m2)
    m4 = p2.tick()

    after_m4 = p3.receive(m4)
    after_m1 = p3.receive(m1)

    assert m1 < m4
    assert after_m4 < after_m1


def test_2_1_v_a_spawned_process_inherits_what_its_parent_knows() -> None:
    parent = VectorClock("parent")
    born_after = parent.tick()
    child = parent.spawn("child")
    later = parent.tick()

    first = child.tick()

    assert born_after < first
    assert first.compare(later) is Relation.CONCURRENT


def test_a_name_is_never_used_again() -> None:
    parent = VectorClock("parent")
    child = parent.spawn("child")
    parent.receive(child.tick())
    with pytest.raises(LocalProtocolError, match="never be used again"):
        parent.spawn("child")


def test_2_1_iii_a_synchronous_communication_leaves_equal_clocks() -> None:
    a, b = VectorClock("a"), VectorClock("b")
    before_a, before_b = a.tick(), b.tick()

    met = a.synchronize(b)

    assert met.to_dict() == {"a": 2, "b": 2}
    assert a.stamp() == b.stamp() == met
    assert before_a < met
    assert before_b < met
    assert b.tick().to_dict() == {"a": 2, "b": 3}


def test_2_1_zero_and_absent_are_the_same() -> None:
    assert VectorStamp({"a": 1, "b": 0}) == VectorStamp({"a": 1})
    assert hash(VectorStamp({"a": 1, "b": 0})) == hash(VectorStamp({"a": 1}))
    assert VectorStamp({"a": 1})["b"] == 0


def test_5_2_receive_is_merge_increment_and_copy() -> None:
    one, other = VectorClock("p"), VectorClock("p")
    stamp = VectorStamp({"q": 3})
    with other.locked():
        other.merge(stamp)
        expected = other.tick()
    assert one.receive(stamp) == expected


def test_3_4_1_rule_i_a_message_without_a_stamp_is_refused() -> None:
    clock = VectorClock("p")
    with pytest.raises(NonParticipantError, match="sent no stamp"):
        clock.receive_unstamped("legacy")
    assert clock.stamp() == VectorStamp()


def test_3_4_a_policy_may_accept_and_mark_instead() -> None:
    clock = VectorClock("p", peer_policy=PeerPolicy.MARK)
    stamp = clock.receive_unstamped("legacy")
    assert stamp.to_dict() == {"p": 1}
    assert clock.unrecorded == {"legacy": 1}


def test_3_5_iii_a_reply_without_a_result_is_ignored() -> None:
    clock = VectorClock("p")
    assert clock.receive_unstamped("legacy", carries_result=False) == VectorStamp()
    assert clock.unrecorded == {}


def test_a_stamp_that_claims_more_of_my_events_than_i_made_is_refused() -> None:
    clock = VectorClock("p")
    clock.tick()
    with pytest.raises(ImpossibleStampError) as caught:
        clock.receive(VectorStamp({"p": 2, "q": 1}))
    assert (caught.value.claimed, caught.value.made) == (2, 1)
    assert clock.stamp().to_dict() == {"p": 1}, "a refused stamp changes nothing"


def test_a_peer_cannot_fill_the_clock_with_names() -> None:
    clock = VectorClock("p", entries_max=2)
    clock.receive(VectorStamp({"a": 1, "b": 1}))
    with pytest.raises(BufferFullError, match="limit of 2"):
        clock.receive(VectorStamp({"c": 1}))
    assert clock.receive(VectorStamp({"a": 2})).to_dict() == {"a": 2, "b": 1, "p": 2}


def test_a_stamp_is_a_snapshot() -> None:
    clock = VectorClock("p", start=VectorStamp({"q": 1}))
    stamp = clock.tick()
    clock.receive(VectorStamp({"q": 5, "r": 1}))
    clock.receive(VectorStamp({"q": 6}))
    assert stamp.to_dict() == {"p": 1, "q": 1}


def test_a_restarted_process_continues_with_its_last_stamp() -> None:
    clock = VectorClock("p", start=VectorStamp({"p": 7, "q": 2}))
    assert clock.tick().to_dict() == {"p": 8, "q": 2}


@pytest.mark.parametrize(
    ("a", "b", "relation"),
    [
        ({}, {}, Relation.EQUAL),
        ({}, {"p": 1}, Relation.BEFORE),
        ({"p": 1}, {}, Relation.AFTER),
        ({"p": 1}, {"q": 1}, Relation.CONCURRENT),
        ({"p": 1, "q": 2}, {"p": 2, "q": 2}, Relation.BEFORE),
        ({"p": 1, "q": 2}, {"p": 2, "q": 1}, Relation.CONCURRENT),
        ({"p": 1}, {"p": 1, "q": 1}, Relation.BEFORE),
        ({"p": 3}, {"p": 2, "q": 1}, Relation.CONCURRENT),
    ],
)
def test_compare_is_four_valued(a: dict[str, int], b: dict[str, int], relation: Relation) -> None:
    x, y = VectorStamp(a), VectorStamp(b)
    assert x.compare(y) is relation
    assert (x < y, x > y) == (relation is Relation.BEFORE, relation is Relation.AFTER)
    assert (x <= y) == (relation in (Relation.BEFORE, Relation.EQUAL))
    assert x.concurrent(y) == (relation is Relation.CONCURRENT)


def test_a_meeting_that_one_side_cannot_take_part_in_changes_nobody() -> None:
    small, large = VectorClock("small", entries_max=1), VectorClock("large", start=VectorStamp({"x": 1, "y": 1}))
    with pytest.raises(BufferFullError):
        large.synchronize(small)
    assert small.stamp() == VectorStamp()
    assert large.stamp() == VectorStamp({"x": 1, "y": 1})
    # Also where the others have had no event yet.
    b, c = VectorClock("b"), VectorClock("c")
    with pytest.raises(BufferFullError):
        small.synchronize(b, c)
    assert small.stamp() == b.stamp() == c.stamp() == VectorStamp()


def test_two_children_cannot_have_one_name() -> None:
    parent = VectorClock("parent")
    parent.spawn("child")
    with pytest.raises(LocalProtocolError, match="never be used again"):
        parent.spawn("child")


def test_a_start_that_is_too_large_is_refused() -> None:
    with pytest.raises(BufferFullError):
        VectorClock("p", start=VectorStamp({"a": 1, "b": 1}), entries_max=1)


def test_entries_are_integers_of_any_kind() -> None:
    stamp = VectorStamp({"a": np.int64(5)})  # type: ignore[dict-item]
    assert VectorStamp.decode(stamp.encode()) == VectorStamp({"a": 5})
    for wrong in ({"a": 1.5}, {"a": "1"}, {1: 1}, {"": 1}, {"a": -1}, {"a": 2**63}):
        with pytest.raises(LocalProtocolError):
            VectorStamp(wrong)  # type: ignore[arg-type]
