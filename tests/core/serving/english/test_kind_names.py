"""A name is displayed with the word for its kind, if a question asks for the kind and the evidence has it."""

from __future__ import annotations

import pytest

from realm_core.serving.english.kind_names import titles_of_kind
from realm_core.serving.english.whole_answers import WholeAnswer


@pytest.mark.parametrize(
    ("question", "text", "read", "answer"),
    [
        ("Where did he go to college?", "He attended Purdue University.", "Purdue", "Purdue University"),
        ("Which university did she leave?", "She left the University of Vienna.", "Vienna", "University of Vienna"),
        ("Which college was it?", "at Trinity College, Cambridge as a sizar", "Trinity", "Trinity College, Cambridge"),
        (
            "What school was it?",
            "at The King's School, Grantham (see",
            "The King's School",
            "The King's School, Grantham",
        ),
        ("Which college was it?", "at Eton College, Harrow School and Oxford", "Eton", "Eton College"),
        ("Which city has she left?", "She left the University of Vienna.", "Vienna", "Vienna"),
        ("In which city is the college?", "It is the University of Chicago.", "Chicago", "Chicago"),
        ("Where is the university?", "It is the University of Chicago.", "Chicago", "Chicago"),
        ("Where did she go to college?", "To the University of Chicago.", "Chicago", "University of Chicago"),
        ("Who stole the money?", "The Russian hackers did.", "hackers", "hackers"),
        ("How much money is it?", "It is 500 pesos.", "500", "500"),
        ("What currency has it?", "The Mexican peso is older.", "peso", "Mexican peso"),
        ("What currency has it?", "The strong peso is older.", "peso", "peso"),
        ("Which party won?", "The Australian Labor Party won.", "Labor", "Australian Labor Party"),
        ("Which party won?", "The Democratic Republic won.", "Democratic", "Democratic"),
        ("What type of music did he write?", "He wrote Baroque music.", "Baroque", "Baroque music"),
        ("What type of music did he write?", "He wrote Baroque musicals.", "Baroque", "Baroque"),
        ("What form of government is it?", "It has a parliamentary system.", "parliamentary", "parliamentary system"),
        ("What time zone is it in?", "It is in the Central Time Zone.", "Central", "Central Time Zone"),
        ("What ship did Darwin sail on?", "He sailed on HMS Beagle.", "Beagle", "HMS Beagle"),
    ],
)
def test_a_name_is_displayed_with_its_kind(question: str, text: str, read: str, answer: str) -> None:
    start = text.index(read)
    first, last = WholeAnswer.of(question).around(text, start, start + len(read), None)
    assert text[first:last] == answer


@pytest.mark.parametrize(
    ("question", "title", "key", "whole"),
    [
        ("What team did Ronaldo play for?", "Real Madrid C.F.", "real madrid", "Real Madrid C.F."),
        ("Which club is it?", "FC Barcelona", "barcelona", "FC Barcelona"),
        ("Which club is it?", "FC Barcelona", "madrid", None),
        ("Which city is it?", "FC Barcelona", "barcelona", None),
        ("In which city is the football club based?", "FC Barcelona", "barcelona", None),
        ("Who did Messi play for?", "FC Barcelona", "barcelona", "FC Barcelona"),
        ("Who won the cup final?", "Liverpool F.C.", "liverpool", "Liverpool F.C."),
        ("Which college was it?", "Princeton University", "princeton", "Princeton University"),
        ("Which college was it?", "Trinity College, Cambridge", "trinity college", "Trinity College, Cambridge"),
        ("Which party is it?", "Australian Labor Party", "labor party", "Australian Labor Party"),
        ("Which party is it?", "Republican Party (United States)", "republican", "Republican Party"),
        ("What ship was it?", "HMS Beagle", "beagle", "HMS Beagle"),
        ("What money has it?", "Mexican peso", "peso", "Mexican peso"),
    ],
)
def test_the_title_of_an_article_is_the_whole_name(question: str, title: str, key: str, whole: str | None) -> None:
    assert titles_of_kind(question, [title, "Something else"], [key, "anything"]) == ({key: whole} if whole else {})


def test_one_of_two_articles_that_are_called_so_is_not_guessed() -> None:
    titles = ["Trinity College, Cambridge", "Trinity College, Dublin"]
    assert titles_of_kind("Which college was it?", titles, ["trinity college"]) == {}
