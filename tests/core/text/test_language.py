"""Which questions and texts are taken for which language: most rightly, next to none wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from realm_core.text.language import foreign_language, text_language

QUESTIONS = Path(__file__).parents[3] / "models" / "questions"
FOREIGN = {
    "fr": """
Qui a découvert la pénicilline ?
Quelle est la capitale du Canada ?
Quand a été construite la tour Eiffel ?
Qui a écrit Les Misérables ?
Où se trouve le mont Everest ?
Quel est le plus long fleuve du monde ?
combien de planètes dans le système solaire
En quelle année est mort Napoléon Bonaparte ?
Qui a peint la Joconde ?
De quel pays Berlin est-elle la capitale ?
Quelle est la vitesse de la lumière ?
qui est le premier homme sur la lune
Pourquoi le ciel est-il bleu ?
Quel roi fit construire le château de Versailles ?
Quelle langue parle-t-on au Brésil ?
date de la révolution française
""",
    "es": """
¿Quién descubrió la penicilina?
¿Cuál es la capital de Canadá?
¿Cuándo se construyó la torre Eiffel?
¿Quién escribió Don Quijote de la Mancha?
¿Dónde está el monte Everest?
¿Cuál es el río más largo del mundo?
cuantos planetas hay en el sistema solar
¿En qué año murió Napoleón Bonaparte?
¿Quién pintó la Mona Lisa?
¿De qué país es capital Berlín?
¿Cuál es la velocidad de la luz?
quien fue el primer hombre en la luna
¿Por qué el cielo es azul?
¿Qué idioma se habla en Brasil?
¿Cuántos habitantes tiene México?
fecha de la revolución francesa
""",
    "de": """
Wer hat das Penicillin entdeckt?
Was ist die Hauptstadt von Kanada?
Wann wurde der Eiffelturm gebaut?
Wer schrieb Die Leiden des jungen Werthers?
Wo liegt der Mount Everest?
Welcher Fluss ist der längste der Welt?
wie viele planeten hat das sonnensystem
In welchem Jahr starb Napoleon Bonaparte?
Wer malte die Mona Lisa?
Von welchem Land ist Berlin die Hauptstadt?
Wie schnell ist das Licht?
wer war der erste mensch auf dem mond
Warum ist der Himmel blau?
Welche Sprache spricht man in Brasilien?
Wie viele Einwohner hat Mexiko?
Wann begann die Französische Revolution?
""",
}


def test_english_questions_are_hardly_ever_flagged() -> None:
    asked = [
        json.loads(line)["question"]
        for path in sorted(QUESTIONS.glob("*-dev.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    flagged = [question for question in asked if foreign_language(question) is not None]
    assert len(asked) > 1300 and len(flagged) <= 0.003 * len(asked), flagged


@pytest.mark.parametrize("language", FOREIGN)
def test_foreign_ones_are_flagged_by_their_language(language: str) -> None:
    asked = FOREIGN[language].split("\n")[1:-1]
    found = [foreign_language(question) for question in asked]
    assert len(asked) == 16 and set(found) <= {language, None}
    assert found.count(language) >= 0.8 * len(asked)


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("wer malte die Mona Lisa?", "de"),
        ("wer malte die mona lisa", "de"),
        ("wo liegt rom?", "de"),
        ("qui est picasso", "fr"),
        ("¿Qué altitud alcanza el Tirich Mir?", "es"),
        ("onde fica lisboa", "pt"),
        ("wer is paris", None),  # typed for “where”
        ("wo is the king of spain", None),
        ("comment on the war", None),
        ("chi square test use", None),
    ],
)
def test_a_short_question_is_told_by_the_word_that_it_begins_with(question: str, language: str | None) -> None:
    assert foreign_language(question) == language


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("من كتب رواية مدن الملح ومتى نشرت لأول مرة؟", "ar"),
        ("پایتخت فرانسه کجاست؟", "fa"),
        ("מי כתב את התנ״ך?", "he"),
        ("Кто написал «Мастера и Маргариту»?", "ru"),
        ("Який найбільший океан?", "uk"),
        ("Ποιος έγραψε την Οδύσσεια;", "el"),
        ("谁写了红楼梦？", "zh"),
        ("日本の首都はどこですか", "ja"),
        ("누가 한글을 만들었나?", "ko"),
        ("भारत का पहला प्रधानमंत्री कौन था?", "hi"),
        ("What is 道 in Chinese?", None),
        ("Who was Ευκλείδης ὁ Ἀλεξανδρεύς, the geometer?", None),
        ("Where is Łódź?", None),
    ],
)
def test_a_question_in_another_script_is_told_without_blanks_between_words(question: str, language: str | None) -> None:
    assert foreign_language(question) == language


@pytest.mark.parametrize("question", ["", "?", "Paris", "Les Misérables", "Don Quijote", "Москва", "東京"])
def test_what_is_too_short_or_unknown_is_not_flagged(question: str) -> None:
    assert foreign_language(question) is None


TEXTS = {
    "en": """The library in Harbour Street opens at nine and closes at six; on Saturdays it is open until noon. Members
        borrow up to ten books for four weeks, and whoever returns them late pays twenty cents a day for each.""",
    "fr": """La bibliothèque de la rue du Port ouvre à neuf heures et ferme à six heures ; le samedi, elle reste ouverte
        jusqu'à midi. Les membres empruntent jusqu'à dix livres pour quatre semaines, et tout retard coûte vingt
        centimes par jour et par livre.""",
    "es": """La biblioteca de la calle del Puerto abre a las nueve y cierra a las seis; los sábados está abierta hasta
        el mediodía. Los socios pueden llevarse hasta diez libros durante cuatro semanas, y quien los devuelve tarde
        paga veinte céntimos al día por cada uno.""",
    "de": """Die Bücherei in der Hafenstraße öffnet um neun und schließt um sechs; samstags ist sie bis zum Mittag
        geöffnet. Mitglieder leihen bis zu zehn Bücher für vier Wochen aus, und wer sie zu spät zurückgibt, zahlt
        zwanzig Cent am Tag für jedes.""",
    "sv": """Biblioteket på Hamngatan öppnar klockan nio och stänger klockan sex; på lördagar är det öppet till tolv.
        Medlemmar får låna upp till tio böcker i fyra veckor, och den som lämnar dem för sent betalar en avgift.""",
    "ru": "Библиотека на Портовой улице открывается в девять часов и закрывается в шесть, а по субботам в полдень.",
}
NAMES = """Nguyễn Thị Minh Khai, Jean-Baptiste Lamarck, Wolfgang Amadeus Mozart, Gabriel García Márquez,
    Astrid Lindgren, Leonardo da Vinci, William Shakespeare, Karol Wojtyła, Søren Kierkegaard,
    Rosalind Franklin, Akira Kurosawa"""
CODE = """
def add_up(values, total):
    exact = [max(value, 0.0) * 1000 for value in values]
    rounded = [int(value) for value in exact]
    missing = round(total * 1000) - sum(rounded)
    for i in sorted(range(len(exact)), key=lambda i: (rounded[i] - exact[i], i))[:max(missing, 0)]:
        rounded[i] += 1
    return rounded

    for (int i = 0; i < n; ++i) { if (p[i] == NULL) { free(q); return -EINVAL; } q[i] = p[i]->next; }
"""
FIGURES = "1,204 3.5 % 17 kg 2026-11-30 | 88 | 12.7 | 0x1F | " * 20


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_text(language: str) -> None:
    text = TEXTS[language]
    assert text_language(text) == language
    assert text_language(" ".join(text.split()[:16])) == language  # a sentence or two
    assert text_language("\n".join([text] * 100)) == language
    assert text_language(text.upper()) in (language, None)


@pytest.mark.parametrize(
    "text",
    ["", "Bibliothèque", "La bibliothèque ouvre à neuf heures.", "日本", "?" * 1000, NAMES, CODE, FIGURES],
    ids=["nothing", "a word", "a short sentence", "two signs", "signs", "names", "a listing", "figures"],
)
def test_what_does_not_tell_its_language(text: str) -> None:
    assert text_language(text) is None


@pytest.mark.parametrize("first", ["fr", "es", "de"])
def test_a_text_in_two_languages_has_none(first: str) -> None:
    assert text_language("\n".join([TEXTS[first]] * 5 + [TEXTS["en"]] * 5)) is None
    assert text_language("\n".join([TEXTS[first], TEXTS["en"]] * 20)) is None
    assert text_language("\n".join([TEXTS[first]] * 19 + [TEXTS["en"]])) == first  # a quotation


def test_names_of_another_language_do_not_make_a_text_foreign() -> None:
    text = """Victor Hugo wrote Notre-Dame de Paris in 1831 and Les Misérables in 1862, in exile on Guernsey. His play
        Le roi s'amuse became Verdi's Rigoletto, and Ruy Blas an opera by Marchetti."""
    assert text_language(text) in ("en", None)
    assert text_language(text * 10) in ("en", None)
