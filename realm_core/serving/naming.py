"""Groups answers that are different wordings of the same name.

A short wording joins a longer one, its head, by one of these rules (on the words of the normalised answers):

    honorific   the longer one only adds honorifics in front: "Isaac Newton", "Sir Isaac Newton"
    surname     the short one is the last word of a name of two to five words, and a block contains both:
                "Kubrick", "Stanley Kubrick"; not a place ("in Washington"), a numeral or a common noun ("Ocean"), nor
                the subject of an article ("Portugal", "Mainland Portugal")
    fragment    the same of several words, within the longer one: "Graham Bell", "Alexander Graham Bell"
    year        in a block, the year begins or ends a date or range: "1887", "1887 to 1889"; only one year joins each
    place       in a block, it precedes a comma and one more name: "Rome", "Rome, Italy"
    language    the longer one only adds the word: "German", "German language"

It must match only one head: "Curie" with "Marie Curie" and "Pierre Curie" joins neither; a fragment is no head beside
the whole. There are no chains: a head joins no other. Words such as North, New or Second make a different name, not a
longer form, and an item of a list is not the list.

If an article's first block begins with a longer form of its title, that form names its subject: "Aretha Louise
Franklin" in "Aretha Franklin", "Robert Nesta Marley" in "Bob Marley", "William Henry Gates III" in "Bill Gates",
"Cleopatra VII Thea Philopator" in "Cleopatra". It is displayed as the title, and joins a wording that equals the title,
and so does the end of that form ("August Haeckel" in "Ernst Haeckel") and what differs from the title by accents alone
("Gurū Nānak").

Displayed is the short wording for honorific, place and language, the full name for surname, the more probable one for
year and fragment ("Gerald Ford" rather than "Vice President Gerald Ford"). If a language is asked for and its article
was read, its title is displayed: "Persian language" rather than "Persian", which is a people, too. A wording that
implies an answer is counted and displayed as that answer: "Swiss" as "Switzerland", if a country is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from realm_core.questions.answers import normalise_answer
from realm_core.text.folding import folded
from realm_core.text.months import FULL_MONTH

_HONORIFICS = frozenset(
    "sir dame dr doctor prof professor lord lady king queen prince princess emperor empress president chancellor "
    "general captain admiral colonel saint st pope mr mrs ms rev reverend".split()
)
_QUALIFIERS = frozenset(
    "north south east west northern southern eastern western new old upper lower greater great little central "
    "first second third fourth fifth mount lake river saint san santa los las fort port cape inner outer united royal "
    "national federal democratic republic equatorial papua african american arctic asian atlantic australian british "
    "mainland continental metropolitan peninsular latin subsaharan ancient medieval modern classical vulgar imperial "
    "colonial middle southeast southwest northeast northwest holy high low "
    "canadian caribbean chinese dutch english european french german greek indian irish italian japanese mexican "
    "pacific polish portuguese roman russian scottish soviet spanish swedish turkish welsh".split()
)
_COMMON_NOUNS = frozenset(
    "academy act airport army award battle bay bridge castle cathedral church city coast college committee company "
    "county court cup dam desert dynasty empire festival forest garden gardens glacier government gulf hall hospital "
    "house institute island islands kingdom lake law league library mountain mountains museum ocean palace park "
    "parliament party peninsula prize province region republic revolution river road school sea show society square "
    "stadium state states station strait street temple theatre theory tower treaty union university valley volcano "
    "war wars world".split()
)
_NUMERALS = frozenset("i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx".split())
_AT_A_PLACE = re.compile(r"\b(?:in|into|at|near|from)\s+$", re.IGNORECASE)
_LIFE_DATES = re.compile(r"[^.()]{0,30}\([^()]*\d{3,4}")  # "(born August 16, 1958)"
_SHORTEST_PART = 3  # letters that identify a first name: "Tim", "Timothy"
_GENERATIONS = frozenset("jr sr ii iii iv".split())
_PARTICLES = frozenset("y e de da di do du del della dos la le van von der den of the bin ibn al".split())
_SURNAME_PARTICLES = frozenset("van von der den zu bin ibn al".split())  # not "de", as in Santiago de Cuba
_SHORT_FORMS = {
    "alexander": "alex sandy",
    "anthony": "tony",
    "antonio": "tony",
    "charles": "charlie chuck",
    "daniel": "dan danny",
    "edward": "ed eddie ted ned",
    "elizabeth": "liz beth betty lizzie",
    "frederick": "fred freddie",
    "henry": "harry hank",
    "james": "jim jimmy jamie",
    "john": "jack johnny",
    "joseph": "joe",
    "katherine": "kate kathy katie",
    "lawrence": "larry",
    "margaret": "maggie peggy meg",
    "michael": "mike mick",
    "muhammad": "mohamed",
    "richard": "dick rick richie",
    "robert": "bob bobby rob robbie",
    "samuel": "sam",
    "theodore": "ted teddy",
    "thomas": "tom tommy",
    "timothy": "tim",
    "william": "bill billy will willie",
}
_YEAR = re.compile(r"\d{3,4}")
_DASH = re.compile(r"[-\u2010-\u2015\u2212]")
_DATED = re.compile(
    r"(?:(?:about|around|between|from|c|circa|early|late|mid|to|and|until|\d{1,4}"
    rf"|{FULL_MONTH.lower()}|bc|ad|ce|bce)\s*)+"
)
_WORD = re.compile(r"\S+")
_NAME = re.compile(r"[^\W\d_][\w.'’-]*")
_MOST_NAME_WORDS = 5
TITLE_ASIDE = re.compile(r"\s*\([^()]*\)$")
_ASKS_LANGUAGE = re.compile(r"\b(?:languages?|speaks?|speaking|spoken)\b", re.IGNORECASE)
_LANGUAGE = " language"


@dataclass(frozen=True)
class Wording:
    """One normalised answer of the evidence.

    key, text: as in `AnswerCandidate`; probability: Σ_z prior · likelihood. places: its best span (start, end) in
    characters, by block id.
    """

    key: str
    text: str
    probability: float
    places: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class NamedAnswer:
    """Wordings of the same name. keys: of all wordings, the displayed one first; text: as displayed."""

    keys: tuple[str, ...]
    text: str


def languages_read(question: str, titles: Iterable[str]) -> dict[str, str]:
    """Language → the title of its article, if a question asks for a language and `titles` has the article."""
    if not _ASKS_LANGUAGE.search(question):
        return {}
    keys = {normalise_answer(title): title for title in titles}
    return {key.removesuffix(_LANGUAGE): title for key, title in keys.items() if key.endswith(_LANGUAGE)}


def same_names(
    wordings: Sequence[Wording],
    texts: Mapping[str, str],
    titles: Mapping[str, str],
    languages: Mapping[str, str] | None = None,
    implied: Mapping[str, str] | None = None,
) -> list[NamedAnswer]:
    """Partition the wordings by name.

    texts: of the blocks, by id; titles: of the articles, by the id of their first block; languages: `languages_read`;
    implied: `english.implied`.
    """
    by_key = {wording.key: wording for wording in wordings}
    begins = {block: _names_end(texts.get(block, "")) for block in titles}
    called = {wording.key: title for wording in wordings if (title := _title_of(wording, texts, titles, begins))}
    called |= _with_other_accents(wordings, titles.values())
    called |= implied or {}
    named = {key: own for key, title in called.items() if (own := _called_alike(key, title, called, by_key)) != key}
    subjects = {key: own for key, own in named.items() if own not in named}  # no chains here, either
    fragments = {key: subjects.get(whole, whole) for key, whole in _fragments(wordings).items()}
    fragments = {key: whole for key, whole in fragments.items() if key not in subjects and key != whole}
    own_articles = frozenset(normalise_answer(TITLE_ASIDE.sub("", title)) for title in titles.values())
    inner = {*subjects, *fragments}
    members, head_of = _joined([wording for wording in wordings if wording.key not in inner], texts, own_articles)
    for joining, rule in ((subjects, "subject"), (fragments, "fragment")):
        for key, whole in joining.items():
            head = head_of.get(whole, whole)
            members.setdefault(head, []).append((key, rule))
            head_of[key] = head
    classes = []
    for wording in wordings:
        if wording.key in head_of:
            continue
        own_members = sorted(members.get(wording.key, ()), key=lambda one: (-by_key[one[0]].probability, one[0]))
        shown = _shown(wording, [(by_key[key], rule) for key, rule in own_members])
        keys = {wording.key, *(key for key, _ in own_members)}
        text = called.get(shown.key, shown.text)
        if languages and shown.key in languages:
            text = languages[shown.key]
        first = own if (own := normalise_answer(text)) in keys else shown.key
        classes.append(NamedAnswer((first, *sorted(keys - {first})), text))
    return classes


def _with_other_accents(wordings: Iterable[Wording], titles: Iterable[str]) -> dict[str, str]:
    """Key → the title that the wording differs from by accents alone; "Canada" is not "Cañada" if both are."""
    by_key = {normalise_answer(own): own for own in (TITLE_ASIDE.sub("", title) for title in titles)}
    plain = {normalise_answer(folded(own)): own for own in by_key.values()}
    same = {one.key: title for one in wordings if (title := plain.get(normalise_answer(folded(one.text))))}
    return {key: title for key, title in same.items() if key not in by_key}


def _called_alike(key: str, title: str, called: Mapping[str, str], by_key: Mapping[str, Wording]) -> str:
    """The key of the wording that a longer form of a title is counted under: the title's own, if that was read.

    Otherwise a longer form in one of its blocks, one with the surname rather than "William Henry Gates III".
    """
    if (own := normalise_answer(title)) in by_key:
        return own
    alike = [
        by_key[k] for k, other in called.items() if other == title and by_key[k].places.keys() & by_key[key].places
    ]
    surname = own.rpartition(" ")[2]
    return max(alike, key=lambda one: (one.key.endswith(f" {surname}"), one.probability, one.key)).key


def _fragments(wordings: Sequence[Wording]) -> dict[str, str]:
    """Key of several words → key of the longest name that ends with them, at the same place."""
    found = {}
    ending = _by_word(wordings, -1)
    for short in wordings:
        wholes = [whole for whole in ending[_word(short, -1)] if _is_fragment(short, whole)]
        if wholes:
            longest = max(wholes, key=lambda whole: (len(whole.key), whole.key))
            # Otherwise it ends two names.
            if all(longest.key == whole.key or longest.key.endswith(f" {whole.key}") for whole in wholes):
                found[short.key] = longest.key
    return found


def _is_fragment(short: Wording, whole: Wording) -> bool:
    return (
        " " in short.key
        and whole.key.endswith(f" {short.key}")
        and _within(short, whole)
        and _is_full_name(whole)
        and short.key.rpartition(" ")[2] not in _COMMON_NOUNS | _NUMERALS
        and not all(word in _HONORIFICS for word in whole.key.removesuffix(short.key).split())
    )


def _is_full_name(wording: Wording) -> bool:
    """Whether words can be a person's name: "Ludwig van Beethoven"."""
    words = wording.text.split()
    return (
        2 <= len(words) <= _MOST_NAME_WORDS
        and words[0] not in _SURNAME_PARTICLES
        and all(word in _SURNAME_PARTICLES or (_is_name(word) and word not in _PARTICLES) for word in words)
        and not any(word in _QUALIFIERS for word in wording.key.split())
    )


def _joined(
    wordings: Sequence[Wording], texts: Mapping[str, str], own_articles: frozenset[str]
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, str]]:
    """(head's key → [(joining key, rule)], joining key → head's key).

    own_articles: normalised titles of articles that begin in the evidence.
    """
    joined: dict[str, tuple[str, str]] = {}
    beginning, ending = _by_word(wordings, 0), _by_word(wordings, -1)
    for short in wordings:
        first, last = _word(short, 0), _word(short, -1)
        if _YEAR.fullmatch(short.key):
            near = [head for head in wordings if short.key in head.text]
        else:
            near = [*beginning[first], *ending[last]]
        rules = {head.key: (head, rule) for head in near if (rule := _rule(short, head, texts, own_articles))}
        fits = list(rules.values())
        # Several heads are fine for year and place, which are checked in the text, but ambiguous for names.
        if len(fits) == 1 or (fits and all(rule in ("year", "place") for _, rule in fits)):
            head, rule = max(fits, key=lambda fit: (fit[0].probability, fit[0].key))
            joined[short.key] = (head.key, rule)
    _keep_one_year(joined, {wording.key: wording for wording in wordings})
    heads = {head for head, _ in joined.values()}
    # No chains: a head joins no other.
    members: dict[str, list[tuple[str, str]]] = {}
    for short_key, (head_key, rule) in joined.items():
        if short_key not in heads:
            members.setdefault(head_key, []).append((short_key, rule))
    return members, {key: head for head, own in members.items() for key, _ in own}


def _by_word(wordings: Sequence[Wording], place: int) -> dict[str, list[Wording]]:
    """The wordings by the first (0) or last (-1) word of their keys, one of which joined names have in common."""
    by_word: dict[str, list[Wording]] = {}
    for wording in wordings:
        by_word.setdefault(_word(wording, place), []).append(wording)
    return by_word


def _word(wording: Wording, place: int) -> str:
    return wording.key.split(" ")[place]


def _keep_one_year(joined: dict[str, tuple[str, str]], by_key: Mapping[str, Wording]) -> None:
    """Let only the most probable of the years that begin or end a range join it: the others contradict it."""
    years: dict[str, list[Wording]] = {}
    for key, (head, rule) in joined.items():
        if rule == "year":
            years.setdefault(head, []).append(by_key[key])
    for own in years.values():
        kept = max(own, key=lambda one: (one.probability, one.key))
        for one in own:
            if one is not kept:
                del joined[one.key]


def _rule(short: Wording, head: Wording, texts: Mapping[str, str], own_articles: frozenset[str]) -> str | None:
    if _YEAR.fullmatch(short.key):
        return "year" if _begins_or_ends(short.key, head.text) and _within(short, head) else None
    begins, ends = head.key.startswith(f"{short.key} "), head.key.endswith(f" {short.key}")
    if not short.key or not (begins or ends):
        return None
    one_word = " " not in short.key
    if one_word and head.key == f"{short.key}{_LANGUAGE}" and short.text[:1].isupper():
        return "language"
    if ends and not one_word and all(word in _HONORIFICS for word in head.key.removesuffix(short.key).split()):
        return "honorific"
    if ends and one_word and short.key not in own_articles and _is_surname(short, head, texts):
        return "surname"
    if begins and _within(short, head) and _is_place_and_region(short, head, texts):
        return "place"
    return None


def _begins_or_ends(year: str, dates: str) -> bool:
    """Whether a year is the first or the last word of a longer date or range of dates."""
    words = [word.strip(",") for word in _DASH.sub(" ", dates.casefold()).split()]
    return len(words) > 1 and year in (words[0], words[-1]) and _DATED.fullmatch(" ".join(words)) is not None


def _is_surname(short: Wording, head: Wording, texts: Mapping[str, str]) -> bool:
    """Whether a block contains both, and the short one can be the last name of a person."""
    places = [texts.get(block, "")[:start] for block, (start, _) in short.places.items() if block in head.places]
    return (
        _is_full_name(head)
        and short.text[:1].isupper()
        and short.key not in _COMMON_NOUNS | _NUMERALS
        and any(not _AT_A_PLACE.search(before) for before in places)
    )


def _within(short: Wording, head: Wording) -> bool:
    """Whether in some block the short wording's span is within the longer one's."""
    return any(
        head.places[block][0] <= start and end <= head.places[block][1]
        for block, (start, end) in short.places.items()
        if block in head.places
    )


def _is_place_and_region(short: Wording, head: Wording, texts: Mapping[str, str]) -> bool:
    front, comma, region = head.text.partition(", ")
    names = all(part[:1].isupper() for part in (front, region))
    if not comma or not names or front.split() != short.text.split() or "," in region or " and " in region:
        return False
    # Not an item of a list, after which more would follow.
    follows = [texts.get(block, "")[end : end + 5] for block, (_, end) in head.places.items()]
    return not any(re.match(r",? (and|or)\b|, [^\W\d_]", text) for text in follows)


def _shown(head: Wording, members: Sequence[tuple[Wording, str]]) -> Wording:
    for member, rule in members:
        if rule in ("honorific", "place", "language"):
            return member
        whole = rule == "year" or (rule == "fragment" and _is_full_name(member))
        if whole and member.probability > head.probability:
            return member
    return head


def _title_of(
    wording: Wording, texts: Mapping[str, str], titles: Mapping[str, str], begins: Mapping[str, int]
) -> str | None:
    """The title of an article that begins with this wording, if the wording is a longer form of the title.

    begins: `_names_end` of the articles' first blocks.
    """
    for block, (start, end) in wording.places.items():
        if start > begins.get(block, -1):  # which most are, and the rest takes time
            continue
        title, text = TITLE_ASIDE.sub("", titles[block]), texts.get(block, "")
        if title and _is_longer_form(title.split(), text[:start].split(), text[start:end].split(), text[end:]):
            return title
    return None


def _names_end(text: str) -> int:
    """Where the first word of a text ends that is no name: nothing after it is preceded by names alone."""
    return next((word.end() for word in _WORD.finditer(text) if not _is_name(word[0])), len(text))


def _is_longer_form(title: Sequence[str], before: Sequence[str], words: Sequence[str], after: str) -> bool:
    """Whether an article's first words, `before`, `words` and `after`, begin with a longer form of its title, `words`.

    Every word of the title has its counterpart in it: the same word, an initial or a short form of it. `words` may be
    the end of that form.
    """
    if not all(_is_name(word) for word in (*title, *before, *words)):
        return False
    while words and normalise_answer(words[0]) in _HONORIFICS and words[0] != title[0]:
        words = words[1:]
    if len(title) >= 2 and any(
        list(words[place : place + len(title)]) == list(title) for place in range(len(words) - len(title) + 1)
    ):
        return len(words) > len(title)
    if any(normalise_answer(word) not in _HONORIFICS for word in before):
        return len(words) > 1 and words[-1] == title[-1] and _is_longer_form(title, (), [*before, *words], after)
    while len(words) > 2 and normalise_answer(words[-1]) in _GENERATIONS:
        words = words[:-1]
    if len(title) == 1:
        reigns = len(words) > 1 and normalise_answer(words[1]) in _NUMERALS
        return len(words) > 1 and words[0] == title[0] and (reigns or _LIFE_DATES.match(after) is not None)
    if len(words) < 2 or words[-1] != title[-1] or list(words) == list(title):
        return False
    middle, own_middle = title[1:-1], words[1:-1]
    if middle and own_middle and len(middle) != len(own_middle):
        return False
    pairs = [(words[0], title[0]), *(zip(own_middle, middle, strict=True) if middle and own_middle else ())]
    return all(_is_given_name(full, short) for full, short in pairs)


def _is_given_name(full: str, short: str) -> bool:
    """Whether two first names can be one: equal, an initial or the beginning of the other, or its short form."""
    own, other = sorted((normalise_answer(full), normalise_answer(short)), key=len)
    if other.startswith(own):
        return len(own) in (1, len(other)) or len(own) >= _SHORTEST_PART
    return own in _SHORT_FORMS.get(other, "").split() or other in _SHORT_FORMS.get(own, "").split()


def _is_name(word: str) -> bool:
    return word in _PARTICLES or (_NAME.fullmatch(word) is not None and word[0].isupper())
