"""Infoboxes and tables of wikitext as sentences: what is read of them, what is left out, and hostile ones."""

from __future__ import annotations

import time

import pytest

from realm_core.corpus.wikitext import to_prose
from realm_core.text.sentences import sentence_spans


def prose(wikitext: str, language: str = "en") -> str:
    return to_prose(wikitext, language)[0]


SETTLEMENT = """{{Infobox settlement
| name                    = San Francisco
| official_name           = City and County of San Francisco
| image_skyline           = SF skyline.jpg
| imagesize               = 280px
| image_caption           = The city from [[Twin Peaks]]
| image_flag              = Flag of San Francisco.svg
| pushpin_map             = California#USA
| coordinates             = {{coord|37|46|N|122|25|W|display=inline,title}}
| subdivision_type        = Country
| subdivision_name        = [[United States]]
| subdivision_type1       = [[U.S. state|State]]
| subdivision_name1       = [[California]]
| established_title       = Mission
| established_date        = {{start date|1776|6|29}}<ref>{{cite web|title=History}}</ref>
| leader_title            = [[Mayor of San Francisco|Mayor]]
| leader_name             = [[Ed Lee (politician)|Ed Lee]] ([[Democratic Party (United States)|D]])
| area_total_km2          = 600.6
| population_total        = 845,767 <!-- census -->
| population_density_km2  = auto
| population_blank1_title = [[Combined statistical area|CSA]]
| population_blank1       = 8,713,914 ([[List|5th]])
| population_demonym      = San Franciscan<br />Frisco
| website                 = {{URL|sfgov.org}}
| footnotes               =
}}
'''San Francisco''' is a city."""

PERSON = """{{Infobox person
| name = Ada Lovelace | birth_date = {{birth date|df=yes|1815|12|10}} | birth_place = London,<br>England
| spouse = {{marriage|[[William King]]|1835}} | height = {{height|ft=5|in=6}}
| known_for = {{plainlist|
* [[Analytical Engine|Mathematics]]
* ''Computing''
}}
| signature = Ada.svg | module = {{Infobox noble|title = Countess|house = [[Byron family|Byron]]}}
}}
She wrote."""


def test_an_infobox_is_read_in_its_own_order() -> None:
    assert prose(SETTLEMENT).split("\n") == [
        "Official name: City and County of San Francisco.",
        "Country: United States.",
        "State: California.",
        "Established title: Mission.",
        "Established date: June 29, 1776.",
        "Mayor: Ed Lee (D).",
        "Area total (km²): 600.6.",
        "Population total: 845,767.",
        "CSA: 8,713,914 (5th).",
        "Population demonym: San Franciscan, Frisco.",
        "San Francisco is a city.",
    ]


def test_lists_templates_and_an_infobox_inside_an_infobox() -> None:
    assert prose(PERSON).split("\n") == [
        "Birth date: 10 December 1815.",
        "Birth place: London, England.",
        "Spouse: William King (1835).",
        "Height: 5 ft 6 in.",
        "Known for: Mathematics, Computing.",
        "House: Byron.",
        "She wrote.",
    ]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("established_event1 = Independence | established_date1 = 1960", "Independence: 1960."),
        ("label2 = First [[flight]] | data2 = 1969<br>(crewed)", "First flight: 1969 (crewed)."),
        ("government_type = Republic", "Government type: Republic."),
        ("leader_title1 = Mayor | leader_name1 = ", "Leader title: Mayor."),
        ("gdp_nominal = $1 | utc_offset = +1", "GDP nominal: $1.\nUTC offset: +1."),
        ("successor2 = Bob | 2010pop = 5", "Successor: Bob.\n2010pop: 5."),
        ("motto = Who dares wins! | alias = R. Roe Jr.", "Motto: Who dares wins!\nAlias: R. Roe Jr."),
        ("flagship = HMS ''Victory'' | flag = x", "Flagship: HMS Victory."),
        ("born = &nbsp; | died = <br/> | lived = http://a.b | ate = ''''' | ran = , | rank = 1st", "Rank: 1st."),
        ("cast = Al | maple = yes, two | coordinator = Bo | ship_class = C | architectural_style = D | magnitude = 9",
         "Cast: Al.\nMaple: yes, two.\nCoordinator: Bo.\nShip class: C.\nArchitectural style: D.\nMagnitude: 9."),
        ("name2 = a | alt1 = b | insignia_alt = c | mapcaption = d | image_size = 2 | seal_link = e | basecolour = f",
         ""),
        ("box_width = 3 | logo_size = 4 | coordinates = 5 | width = 27 m",
         "Width: 27 m."),
        ("a = yes | b = None | c = x y.JPG | d = #ff00aa | e = 250px | f = 42", "F: 42."),
        ("first | second = 2 | {{{third}}} = 3", "Second: 2."),
    ],
)  # fmt: skip
def test_parameters(parameters: str, expected: str) -> None:
    assert prose(f"{{{{Infobox thing | {parameters} }}}}") == expected


@pytest.mark.parametrize(
    "name", ["infobox", "Template:Infobox_film", "Automatic taxobox", "Ficha de persona", "Chembox"]
)
def test_templates_that_are_infoboxes(name: str) -> None:
    assert prose(f"A.\n{{{{{name}\n|genus=Ursa\n}}}}\nB.") == "A.\nGenus: Ursa.\nB."


@pytest.mark.parametrize("name", ["Navbox", "cite book", "Use dmy dates", "Quote box2", "Multiple image", "Ficha"])
def test_other_templates_are_dropped(name: str) -> None:
    assert prose(f"A.\n{{{{{name}\n|genus=Ursa\n}}}}\nB.") == "A.\nB."


def test_french_and_spanish_infoboxes() -> None:
    assert (
        prose(
            "{{Infobox Biographie2\n| nom = Marie Curie\n| légende = En 1920\n| date de naissance = "
            "{{date de naissance|7|11|1867}}\n| lieu de naissance = [[Varsovie]]\n}}",
            "fr",
        )
        == "Date de naissance: 7 novembre 1867.\nLieu de naissance: Varsovie."
    )
    assert prose("{{Ficha de localidad\n|imagen = x.jpg\n|país = [[España]]\n|población = 3 300 000\n}}", "es") == (
        "País: España.\nPoblación: 3 300 000."
    )  # fmt: skip


# ---- tables

FILMS = """{| class="wikitable sortable" style="width:100%"
|+ Films
! rowspan="2" scope="col" | Year
! rowspan="2" | Film !! colspan=2 | Result !! rowspan=2 class="unsortable" | {{abbr|Ref.|Reference}}
|-
! Nominations
! Wins
|-
! rowspan=2 scope="row" | 1997
| ''[[Titanic (1997 film)|Titanic]]'' || 14 || align="right" | 11 || <ref>x</ref>
|-
| ''As Good as It Gets''
| 7
| 2
|
|-
| colspan="5" | ''No ceremony was held.''
|-
| 1998 || [[Shakespeare in Love]] || 13 || —
|}"""


def test_each_row_of_a_table_is_a_sentence() -> None:
    assert prose(f"Before.\n{FILMS}\nAfter.").split("\n") == [
        "Before.",
        "Year: 1997; Film: Titanic; Result Nominations: 14; Result Wins: 11.",
        "Year: 1997; Film: As Good as It Gets; Result Nominations: 7; Result Wins: 2.",
        "Year: 1998; Film: Shakespeare in Love; Result Nominations: 13.",
        "After.",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("! colspan=2 | London\n|-\n! Population\n| 8,982,000\n|-\n! Image\n| x\n|-\n! Mayor\n| [[Sadiq Khan]]",
         "Population: 8,982,000.\nMayor: Sadiq Khan."),
        ("| '''River''' || '''Length'''\n|-\n| Nile || 6,650&nbsp;km\n|-\n| Amazon || {{convert|6400|km|mi}}",
         "River: Nile; Length: 6,650 km.\nRiver: Amazon; Length: 6400 km."),
        ("! !! 2001 !! 2011\n|-\n! England\n| 49 || 53\n|-\n! Wales\n| 3 || 3",
         "England; 2001: 49; 2011: 53.\nWales; 2001: 3; 2011: 3."),
        ("! Team !! Won\n|-\n| A || 1\n|-\n! Player !! Goals\n|-\n| B || 2", "Team: A; Won: 1.\nPlayer: B; Goals: 2."),
        ("! A !! B\n|-\n| x\n* one\n* two\n| y<br>z", "A: x, one, two; B: y, z."),
        ("! A !! B\n|-\n| x ||\n|-\n| || y\n|-\n| 1 || 2 || 3 || 4", "A: 1; B: 2."),
        ("! City !! Year !! People\n|-\n| rowspan=2 | Kemi || 1990 || 26,000\n|-\n| 2020 || 20,000\n|-\n"
         "| colspan=\"2\" | Whole country || 46,000",
         "City: Kemi; Year: 1990; People: 26,000.\nCity: Kemi; Year: 2020; People: 20,000.\n"
         "City, Year: Whole country; People: 46,000."),
        ("! A !! Image !! B\n|-\n| colspan=2 | x || 1\n|-\n| 1 || colspan=2 | y", "A: x; B: 1.\nA: 1; B: y."),
        ("| left || right\n|-\n| down || up", ""),
        ("! alone\n|-\n| 1\n|-\n| 2", ""),
    ],
)  # fmt: skip
def test_tables(rows: str, expected: str) -> None:
    assert prose(f"{{| class=wikitable\n|-\n{rows}\n|}}") == expected


def test_of_a_table_for_layout_the_tables_inside_are_read() -> None:
    assert prose(f"{{|\n| valign=top |\n{FILMS}\n|\nSome words\n|}}").count("Year: ") == 3
    assert prose(f"{{{{Infobox thing|results=\n{FILMS}\n|rank=1}}}}").endswith("Nominations: 13.\nRank: 1.")


def test_a_box_inside_a_template_that_stands_for_words_keeps_its_lines() -> None:
    assert prose("A {{small|{{Infobox|rank=1|size=2}}}}\n\nb.") == "A\nRank: 1.\nSize: 2.\nb."


def test_a_row_is_a_sentence_of_its_own() -> None:
    text = prose(SETTLEMENT + "\n" + FILMS)
    assert [text[start:end] for start, end in sentence_spans(text)] == text.split("\n")


def test_boxes_in_sections_without_prose_are_left_out() -> None:
    text, sections, _ = to_prose(f"A.\n== Films ==\n{FILMS}\n== References ==\n{FILMS}")
    assert text.count("Titanic") == 1 and [section.heading for section in sections] == ["Films"]


def test_links_inside_are_anchors() -> None:
    text, _, links = to_prose(SETTLEMENT + "\n" + FILMS)
    assert [text[start:end] for start, end in links] == [
        *("United States", "California", "Ed Lee", "D", "5th", "Titanic", "Shakespeare in Love"),
    ]


# ---- bounds


def test_what_is_long_is_cut() -> None:
    names = ", ".join(f"[[Name {number}]]" for number in range(200))
    (line,) = prose(f"{{{{Infobox club|members={names}}}}}").split("\n")
    assert line.startswith("Members: Name 0, Name 1, ") and line.endswith(" …") and len(line) < 320
    row = " || ".join(f"{'x' * 50} {number}" for number in range(30))
    headers = " !! ".join(f"Column {number}" for number in range(30))
    (line,) = prose(f"{{|\n! {headers}\n|-\n| {row}\n|}}").split("\n")
    assert line.startswith("Column 0: ") and line.endswith("8.") and len(line) < 650
    rows = "\n|-\n".join(f"| {number} || b" for number in range(1000))
    assert prose(f"{{|\n! A !! B\n|-\n{rows}\n|}}").count("\n") == 199
    parameters = "".join(f"|name {number} x={number}" for number in range(1000))
    assert prose(f"{{{{Infobox|{parameters}}}}}").count("\n") == 199


@pytest.mark.parametrize(
    "wikitext",
    [
        "{" * 10_000 + "Infobox|a=b" + "}" * 10_000,
        "{{Infobox|a=" * 10_000 + "b" + "}}" * 10_000,
        "{{Infobox|a=" * 10_000,
        "{{Infobox\n" + "|a = [[b\n" * 10_000,
        "{{Infobox|" + "x_title1=y|x_name1=z|" * 10_000 + "}}",
        "{{Infobox|a=" + " ,\n<br>" * 30_000 + "}}",
        "{{Infobox|a=" + "<br" * 50_000 + "}}",
        "{{" + "infobox" * 20_000 + "|a=b}}",
        "{|\n! a !! b\n" + "|-\n| c || d\n" * 10_000,
        "{|\n" * 10_000 + "! a !! b\n|-\n| c || d\n" + "|}\n" * 10_000,
        "{|\n! a !! b\n" + "|-\n| rowspan=999 colspan=999 | c\n" * 10_000 + "|}",
        "{|\n!" + " a !!" * 30_000 + "\n|-\n|" + " b ||" * 30_000 + "\n|}",
        "{|\n! a !! b\n|-\n| " + "c\n" * 50_000 + "\n|}",
    ],
    ids=lambda text: text[:20] + f" {len(text)}",
)
def test_hostile_boxes_take_little_time(wikitext: str) -> None:
    started = time.process_time()  # other work on the machine does not count
    text = prose(f"Lead.\n\n{wikitext}\n\nEnd.")
    assert time.process_time() - started < 2
    assert text.startswith("Lead.") and len(text) <= len(wikitext) + 20
