"""A message that comes a second time is recognised, on the short way and on the long one."""

from __future__ import annotations

from threading import RLock

from beforehand.rpc import Causality, Link
from beforehand.rpc.headers import MESSAGE_HEADER
from beforehand.rpc.remembered import REMEMBERED_MAX, Remembered


def test_noted_message_is_not_new_again() -> None:
    remembered = Remembered(RLock())

    assert remembered.note("a", 1)
    assert not remembered.note("a", 1)
    assert remembered.open == 1


def test_message_appended_without_a_question_is_not_new() -> None:
    remembered = Remembered(RLock())

    remembered.recent.append(("a", 7))

    assert not remembered.note("a", 7)


def test_open_message_that_is_forgotten_is_not_open_any_more() -> None:
    remembered = Remembered(RLock())
    remembered.note("a", 1)

    remembered.recent.extend(("b", event) for event in range(REMEMBERED_MAX))
    remembered.note("c", 1)
    remembered.close("c", 1)

    assert remembered.open == 0
    assert remembered.note("a", 1)


def test_difference_that_comes_twice_is_counted_once_as_repeated() -> None:
    reader, store, link = Causality("reader"), Causality("store"), Link()
    call = reader.request_out("read", link=link)
    reader.reply_in(call, store.reply_out(store.request_in("read", call.headers)))
    call = reader.request_out("read", link=link)

    store.request_in("read", call.headers)
    store.request_in("read", call.headers)

    assert store.figures().received_again == 1
    assert store.figures().received == 3


def test_difference_of_message_that_came_before_without_stamp_is_repeated() -> None:
    reader, store, link = Causality("reader"), Causality("store"), Link()
    call = reader.request_out("read", link=link)
    reader.reply_in(call, store.reply_out(store.request_in("read", call.headers)))
    call = reader.request_out("read", link=link)

    store.request_in("read", {MESSAGE_HEADER: "reader:3"})
    store.request_in("read", call.headers)

    assert store.figures().received_again == 1
