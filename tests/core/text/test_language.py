"""Which questions are taken for foreign ones: nearly all of those, and next to none of the English ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from realm_core.text.language import foreign_language

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


@pytest.mark.parametrize("question", ["", "?", "Paris", "Les Misérables", "Don Quijote", "日本の首都はどこですか"])
def test_what_is_too_short_or_unknown_is_not_flagged(question: str) -> None:
    assert foreign_language(question) is None
