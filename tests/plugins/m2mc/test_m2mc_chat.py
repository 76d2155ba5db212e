"""The Threaded Chat on top of M2MC: offers, threads, and what the user sees (spec 4.7)."""

from __future__ import annotations

from random import Random

import pytest
from m2mc_bench import SECOND, create, gid, m2mc_bench

from castbed import ContractError, Message, Mid, Setting, load_registry
from castbed.application import Call, Submit
from castbed.events import Submitted
from castbed.testing import Bench
from castbed.units import convert
from castbed_plugins import m2mc

QUESTIONS = """\
C: Did you visit Delhi?
  B: Yes
C: Did you visit Chennai?
  A: No"""


class Users:
    """A bench with a chat on each node; wishes, deliveries and notices go back and forth until all is quiet."""

    def __init__(self, variant: str, accept: dict[str, object], names: str = "ABCD") -> None:
        self.bench: Bench = m2mc_bench(names, variant)
        self.chats = {
            name: m2mc.Chat(
                Setting(number, self.bench.topology, Random(number), 0), m2mc.ChatOptions(accept.get(name, "all"))
            )
            for number, name in enumerate(names, start=1)
        }
        self.seen: dict[str, tuple[int, int]] = dict.fromkeys(names, (0, 0))

    def run(self, seconds: int = 3) -> None:
        for _ in range(seconds * 10):
            self.bench.run(SECOND // 10)
            for name, chat in self.chats.items():
                self.pass_up(name, chat)
                self.pass_down(name, chat)

    def pass_up(self, name: str, chat: m2mc.Chat) -> None:
        notices, messages = self.seen[name]
        for notice in self.bench.notices[name][notices:]:
            chat.told(notice)
        for message in self.bench.messages[name][messages:]:
            chat.delivered(message)
        self.seen[name] = len(self.bench.notices[name]), len(self.bench.messages[name])

    def pass_down(self, name: str, chat: m2mc.Chat) -> None:
        for wish in chat.take_wishes():
            if isinstance(wish, Call):
                self.bench.ask(name, wish.command)
            elif isinstance(wish, Submit):
                self.bench.step(name, Submitted(wish.message))


def ask_the_two_questions(users: Users) -> int:
    group = create(users.bench, "C")
    users.run()
    users.chats["C"].say(group, "Did you visit Delhi?")
    users.chats["C"].say(group, "Did you visit Chennai?")
    users.run()
    users.chats["A"].say(group, "No", users.bench.mid("C2"))
    users.chats["B"].say(group, "Yes", users.bench.mid("C1"))
    users.run()
    return group


@pytest.mark.parametrize("variant", ["published", "repaired"])
def test_v2_every_member_sees_each_answer_under_its_question(variant: str) -> None:
    users = Users(variant, {"D": "none"})
    group = ask_the_two_questions(users)
    assert group == gid(users.bench, "1.C")
    for name in "ABC":
        assert users.chats[name].render(group) == QUESTIONS
    assert users.chats["D"].render(group) == ""
    assert users.chats["D"].offers[group].desc == "chat"


def test_a_list_of_descriptions_says_which_groups_the_user_joins() -> None:
    users = Users("repaired", {"A": ("chess",), "B": "none"}, names="ABC")
    chess, chat = create(users.bench, "C", "chess"), create(users.bench, "C", "chat")
    users.run()
    assert users.bench.machines["A"].gjlp.joined() == [chess]
    assert users.bench.machines["B"].gjlp.joined() == []
    assert set(users.chats["A"].offers) == {chess, chat}


def test_a_chat_that_starts_anew_is_told_the_conversation_so_far() -> None:
    users = Users("repaired", {})
    group = ask_the_two_questions(users)
    bench = users.bench
    bench.crash("B")
    users.chats["B"] = m2mc.Chat(Setting(2, bench.topology, Random(2), 0))
    bench.start("B")
    users.run()
    assert users.chats["B"].render(group) == QUESTIONS
    users.chats["B"].say(group, "Why?", bench.mid("A1"))
    users.run()
    assert users.chats["D"].render(group) == users.chats["B"].render(group) == QUESTIONS + "\n    B: Why?"


def test_an_answer_without_its_question_is_a_broken_contract() -> None:
    """M2-S8: the tree never has to guess."""
    chat = Users("repaired", {}).chats["A"]
    with pytest.raises(ContractError, match="not in the conversation"):
        chat.delivered(Message(Mid(2, 1), 1, b"No", Mid(3, 2)))


def test_when_the_beginning_is_no_longer_known_answers_to_it_stand_alone() -> None:
    chat = Users("repaired", {}).chats["A"]
    chat.told(m2mc.GroupResumed(1, "chat", (Message(Mid(2, 1), 1, b"No", Mid(3, 2)),), complete=False))
    assert chat.render(1) == "B: No"


def test_a_deep_thread_is_rendered_without_recursion() -> None:
    chat = Users("repaired", {}).chats["A"]
    for number in range(1, 3000):
        chat.delivered(Message(Mid(2, number), 1, b"x", Mid(2, number - 1) if number > 1 else None))
    assert chat.render(1).count("\n") == 2998


def test_the_chat_is_an_application_that_an_experiment_can_name() -> None:
    plugin = load_registry().applications.get("chat", "application")
    assert convert({"accept": ["chess"]}, plugin.options).accepts("chess")
    assert not convert({"accept": "none"}, plugin.options).accepts("chess")
