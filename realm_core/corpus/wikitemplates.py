"""Templates that stand for words of a sentence, and those words.

Wikipedia has hundreds of thousands of templates. Most are boxes, references and notes to editors and are removed; those
below stand inside sentences, which would be incomplete without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Arguments = tuple[list[str], dict[str, str]]  # positional, named
_Handler = Callable[[list[str], dict[str, str], str], str]

_NAME = re.compile(r"[\w -]{1,40}")
_MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
}
_LANGUAGES = {
    "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gd": "Scottish Gaelic", "grc": "Ancient Greek", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "ko": "Korean", "ku": "Kurdish", "la": "Latin", "lt": "Lithuanian", "lv": "Latvian",
    "mk": "Macedonian", "mn": "Mongolian", "ms": "Malay", "mt": "Maltese", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sa": "Sanskrit", "sk": "Slovak",
    "sl": "Slovene", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "th": "Thai",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "yi": "Yiddish", "zh": "Chinese",
}  # fmt: skip
# The unit as a reader expects it after a number; others are written as they stand.
_UNITS = {
    "sqmi": "square miles", "sqkm": "km²", "km2": "km²", "m2": "m²", "m3": "m³", "km3": "km³", "sqft": "square feet",
    "cuft": "cubic feet", "mi": "miles", "ft": "feet", "in": "inches", "lb": "pounds", "mph": "mph", "C": "°C",
    "F": "°F", "degC": "°C", "degF": "°F", "acre": "acres", "nmi": "nautical miles", "kph": "km/h", "ha": "hectares",
}  # fmt: skip
_RANGES = {"to", "-", "–", "and", "or", "by", "x", "×", "to(-)", "and(-)", "+/-", "±"}


def expand(content: str, language: str) -> str:
    """The words of {{content}}; "" for templates that stand for none."""
    name = template_name(content)
    parts = content.split("|")
    if ":" in name:
        function, _, argument = parts[0].partition(":")
        return argument.strip() if function.strip().lower() in _TEXT_FUNCTIONS else ""
    handler = _HANDLERS.get(name)
    if handler is None and name.startswith("lang-"):
        return _lang_named(name.removeprefix("lang-"), *_arguments(parts[1:]))
    return handler(*_arguments(parts[1:]), language) if handler is not None else ""


def template_name(content: str) -> str:
    """The name in {{content}}, in lower case."""
    name = content.partition("|")[0].strip().replace("_", " ").lower()
    return name.removeprefix("template:").removeprefix("subst:").removeprefix("safesubst:").strip()


def named_values(content: str) -> dict[str, str]:
    """The named arguments in {{content}}, in order, by names in lower case."""
    return _arguments(content.split("|")[1:])[1]


def _arguments(parts: list[str]) -> Arguments:
    positional: list[str] = []
    named: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        name = key.strip()
        if not equals or not _NAME.fullmatch(name or key):
            positional.append(part.strip())
        elif name.isdecimal():
            index = int(name)
            if 1 <= index <= 20:
                positional.extend([""] * (index - len(positional)))
                positional[index - 1] = value.strip()
        else:
            named[name.lower()] = value.strip()
    return positional, named


def _argument(number: int) -> _Handler:
    """The handler that gives the number-th positional argument."""
    return lambda positional, _named, _language: positional[number - 1] if len(positional) >= number else ""


def _fixed(text: str) -> _Handler:
    return lambda _positional, _named, _language: text


def _last(positional: list[str], _named: dict[str, str], _language: str) -> str:
    return next((value for value in reversed(positional) if value), "")


def _joined(separator: str) -> _Handler:
    return lambda positional, _named, _language: separator.join(filter(None, positional))


def _before(text: str) -> _Handler:
    return lambda positional, _named, _language: f"{text}{positional[0]}" if positional and positional[0] else ""


def _after(text: str) -> _Handler:
    return lambda positional, _named, _language: f"{positional[0]}{text}" if positional and positional[0] else ""


def _lang_named(code: str, positional: list[str], named: dict[str, str]) -> str:
    text = positional[0] if positional else named.get("text", "")
    language = _LANGUAGES.get(code.split("-")[0])
    if not text or language is None or named.get("label") == "none":
        return text
    return f"{language}: {text}"


def _langx(positional: list[str], named: dict[str, str], _language: str) -> str:
    return _lang_named(positional[0], positional[1:], named) if positional else ""


def _convert(positional: list[str], _named: dict[str, str], _language: str) -> str:
    """{{convert|12|km|mi}} → 12 km; {{convert|5|to|7|ft}} → 5 to 7 feet; {{convert|5|ft|11|in}} → 5 feet 11 inches."""
    words: list[str] = []
    for i, value in enumerate(positional):
        if re.fullmatch(r"[-−+]?[\d.,/⁄+ e]+", value):
            words.append(value)
        elif value.lower() in _RANGES and words:
            words.append({"-": "–", "to(-)": "to", "and(-)": "and", "+/-": "±", "x": "×"}.get(value, value))
        else:
            words.append(_UNITS.get(value, value))
            following = positional[i + 1 : i + 3]
            if not (value in ("ft", "lb", "st", "mi") and len(following) == 2 and following[0].isdecimal()):
                break
    return " ".join(words).replace(" – ", "–")


def _unit(positional: list[str], _named: dict[str, str], _language: str) -> str:
    """French {{unité|12|km}}: a number, a unit, perhaps its exponent."""
    exponents = {"2": "²", "3": "³"}
    return " ".join([*positional[:1], "".join(exponents.get(value, value) for value in positional[1:3])]).strip()


def _value(positional: list[str], named: dict[str, str], _language: str) -> str:
    """{{val|1.23|0.04|e=5|u=m}} → 1.23±0.04×10^5 m."""
    if not positional:
        return ""
    text = positional[0]
    if len(positional) > 1 and re.match(r"[\d.]+$", positional[1]):
        text += f"±{positional[1]}"
    if named.get("e"):
        text += f"×10^{named['e']}"
    unit = named.get("u") or named.get("ul") or named.get("up")
    return f"{text} {unit}" if unit else text


def _fraction(positional: list[str], _named: dict[str, str], _language: str) -> str:
    numbers = [value for value in positional if value]
    if len(numbers) == 3:
        return f"{numbers[0]} {numbers[1]}/{numbers[2]}"
    return "/".join(numbers if len(numbers) == 2 else ["1", *numbers]) if numbers else ""


def _date(positional: list[str], named: dict[str, str], language: str) -> str:
    """Year, month, day as numbers, in that order → a date in words."""
    numbers = [value.lstrip("0") for value in positional[:3] if value]
    if not numbers or not all(value.isdecimal() for value in numbers):
        return positional[0] if len(positional) == 1 else " ".join(filter(None, positional[:3]))
    if len(numbers) == 1 or not 1 <= int(numbers[1]) <= 12:
        return numbers[0]
    month = _MONTHS.get(language, _MONTHS["en"])[int(numbers[1]) - 1]
    if len(numbers) == 2:
        return f"{month} {numbers[0]}"
    if language == "es":
        return f"{numbers[2]} de {month} de {numbers[0]}"
    if language != "en" or named.get("df", "").lower() in ("y", "yes"):
        return f"{numbers[2]} {month} {numbers[0]}"
    return f"{month} {numbers[2]}, {numbers[0]}"


def _french_date(positional: list[str], named: dict[str, str], language: str) -> str:
    """French {{date|14|juillet|1789|en France}}; elsewhere {{date|1789-07-14}} or words."""
    if language == "fr":
        words = [word for word in positional[:3] if word]
        if len(words) > 1 and words[1].isdecimal() and 1 <= int(words[1]) <= 12:
            words[1] = _MONTHS["fr"][int(words[1]) - 1]
        return " ".join(words)
    iso = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", positional[0]) if positional else None
    return _date(list(iso.groups()), named, language) if iso else (positional[0] if positional else "")


def _as_of(positional: list[str], named: dict[str, str], language: str) -> str:
    if named.get("alt"):
        return named["alt"]
    words = "since" if named.get("since") else "as of"
    words = words if named.get("lc") else words.capitalize()
    return f"{words} {_date(positional, {'df': 'y'}, language)}".strip()


def _ship(positional: list[str], _named: dict[str, str], _language: str) -> str:
    return " ".join(filter(None, positional[:2]))


def _named_ship(prefix: str) -> _Handler:
    def read(positional: list[str], _named: dict[str, str], _language: str) -> str:
        if not positional:
            return prefix
        hull = f" ({positional[1]})" if len(positional) > 1 and positional[1] else ""
        return f"{prefix} {positional[0]}{hull}"

    return read


def _nihongo(positional: list[str], _named: dict[str, str], _language: str) -> str:
    words = [*positional, "", "", ""]
    inside = ", ".join(filter(None, words[1:3]))
    if not words[0]:
        return inside
    return f"{words[0]} ({inside})" if inside else words[0]


def _century(positional: list[str], named: dict[str, str], language: str) -> str:
    """French {{s|XIX|e}} and Spanish {{siglo|XIX||s}}."""
    if not positional:
        return ""
    if language == "es":
        return f"siglo {positional[0]}"
    ordinal = positional[1] if len(positional) > 1 and positional[1] else "e"
    return f"{positional[0]}{ordinal} siècle"


def _quotation(positional: list[str], named: dict[str, str], _language: str) -> str:
    text = named.get("text") or named.get("quote") or (positional[0] if positional else "")
    return f"\n{text}\n" if text else ""


def _sounds(before: str, after: str) -> _Handler:
    """Phonetic signs in a sentence about them; with a language's code they are a pronunciation, and go."""

    def read(positional: list[str], _named: dict[str, str], _language: str) -> str:
        return f"{before}{positional[0]}{after}" if len(positional) == 1 and positional[0] else ""

    return read


def _interlanguage_link(positional: list[str], _named: dict[str, str], _language: str) -> str:
    """{{ill|Title|de}}, and as it was: {{ill|de|Title}}."""
    first, second = [*positional, "", ""][:2]
    return second if second and first in _LANGUAGES else first


def _marriage(positional: list[str], _named: dict[str, str], _language: str) -> str:
    """{{marriage|Jo|1990|2000}} → Jo (1990–2000)."""
    years = "–".join(year for year in positional[1:3] if year and "=" not in year)
    return f"{positional[0]} ({years})" if years else "".join(positional[:1])


def _height(_positional: list[str], named: dict[str, str], _language: str) -> str:
    """{{height|ft=5|in=11}} → 5 ft 11 in."""
    return " ".join(f"{named[unit]} {unit}" for unit in ("m", "cm", "ft", "in") if named.get(unit))


def _circa(positional: list[str], _named: dict[str, str], _language: str) -> str:
    return "c. " + "–".join(filter(None, positional[:2])) if positional and positional[0] else "c."


def _reign(positional: list[str], _named: dict[str, str], _language: str) -> str:
    return "r. " + "–".join(positional[:2]) if positional else "r."


# What templates read as, and their names.
_TEMPLATES: tuple[tuple[_Handler, str], ...] = (
    (
        _argument(1),
        "nowrap|nobr|nobreak|nowraplinks|small|smaller|big|larger|em|strong|sic|abbr|abbrlink|tooltip|sup|sub|"
        "mvar|math|tmath|var|small caps|smallcaps|sc|visible anchor|vanchor|not a typo|notatypo|proper name|as written|"
        "typo|iast|unicode|polytonic|hebrew|arabic|he|ipa notice|birth-date|death-date|birth-date and age|"
        "death-date and age|start-date|end-date|flag|flagu|flagcountry|flagdeco|noitalic|noitalics|normal|nocaps|"
        "underline|overline|bold|italics|serif|sans-serif|mono|monospace|code|tt|kbd|samp|param|bigmath|"
        "nobold|overset|phrase|gloss|char|rtl-lang|nastaliq|script/arabic|script/hebrew|"
        "link-interwiki|lien|formatnum|nombre|number|nb|blockindent|nom de langue|"
        "souligner|esd|versalita|keypress|key press|key|subscript|superscript|su|uppercase|lowercase|ucfirst|lcfirst|"
        "nts|gaps|highlight",
    ),
    (
        _argument(2),
        "lang|langue|idioma|color|font color|fontcolor|background color|audio|script|sort|hs|zh-full|"
        "bg|fgcolor|citation étrangère|anchored|sfrac text|hover title|h:title|native name|native phrase",
    ),
    (_last, "columns-list|transl|transliteration|translit|longitem|resize"),
    (_joined(""), "chem|chem2|fchim|formule chimique|linktext|indice"),
    (
        _joined(", "),
        "ubl|unbulleted list|hlist|ublist|plainlist|flatlist|cslist|comma separated entries|collapsible list",
    ),
    (_joined(" "), "heure|bibleverse|bibleref|bibleref2"),
    (_convert, "convert|cvt|conv|convert/2|unitconvert"),
    (_unit, "unité|unidad|unite|nobr unité"),
    (_value, "val|formatted number"),
    (_interlanguage_link, "ill|interlanguage link"),
    (_joined(" by "), "based on"),
    (_marriage, "marriage"),
    (_height, "height"),
    (_fraction, "frac|fraction|sfrac|fract|fracción|1/2"),
    (
        _date,
        "birth date|birth date and age|death date|death date and age|start date|end date|start date and age|bda|dda|"
        "dob|end date and age|film date|birth year|birth year and age|death year|birth based on age|release date|dts|"
        "launch date|birth date and age2",
    ),
    (_french_date, "date|date-|date de naissance|date de décès|fecha|date sport"),
    (_as_of, "as of|asof|à partir de"),
    (_ship, "ship|warship"),
    (_nihongo, "nihongo|nihongo2|nihongo3|japonais|korean|hangul|zh-hanzi"),
    (_century, "s|-s|s-|siglo|siècle|sp|sap"),
    (
        _quotation,
        "quote|blockquote|cquote|quotation|rquote|quote box|block quote|bquote|cita|citation bloc|début citation|cita2|"
        "centered pull quote|pull quote|quote frame|poemquote|verse translation",
    ),
    (_sounds("", ""), "ipa|ipa link|ipalink"),
    (_sounds("/", "/"), "ipaslink"),
    (_sounds("[", "]"), "ipablink"),
    (_sounds("⟨", "⟩"), "angbr|angle bracket"),
    (_joined("-"), "simplenuclide|simplenuclide2"),
    (_circa, "circa|c.|ca.|approx|vers|hacia|c"),
    (_reign, "reign|r.|règne"),
    (_before("fl. "), "floruit|fl.|fl"),
    (_before("b. "), "b.|born"),
    (_before("d. "), "d.|died"),
    (_before("No. "), "no.|number sign"),
    (_before("AD "), "ad"),
    (_after(" BC"), "bc|avant jc"),
    (_after(" BCE"), "bce"),
    (_after(" CE"), "ce"),
    (_after(" million years ago"), "mya"),
    (_after("°"), "deg|degree|degrees|angle"),
    (_after("!"), "factorial"),
    (_before("US$"), "us$|usd|us dollar|united states dollar"),
    (_before("£"), "gbp|£|pound sterling"),
    (_before("€"), "euro|eur|€"),
    (_before("₹"), "inr|indian rupee|inrconvert|₹"),
    (_before("¥"), "jpy|¥|yen|cny"),
    (_before("A$"), "a$|aud|au$"),
    (_before("C$"), "c$|cad|ca$"),
    (_before("§ "), "section link|slink"),
    (_before("M. "), "m.|m"),
    (_before("Mme "), "mme"),
    (_before("Mlle "), "mlle"),
    (lambda positional, _named, _language: " ".join(["1er", *positional]), "1er"),
    (_langx, "langx|lang x"),
)
_SHIPS = "HMS USS SS MS MV RMS HMAS HMCS SMS USNS USCGC INS RV PS ORP".split()
_CHARACTERS = {
    "—": "em dash|mdash|—|emdash",
    "–": "ndash|en dash|–|endash",
    " – ": "snd|spaced ndash|spnd|spaced en dash|sndash|dash|spaced en dash space",
    " ": "nbsp|space|spaces|thin space|thinsp|hair space|hairsp|figure space|zwsp|clear|break|br|pad|indent|ensp|emsp",
    " · ": "·|dot|middot|•|bullet|dotsep|ponto",
    "/": "slash|/",
    "=": "=",
    "'": "'|apostrophe",
    "'s": "'s",
    '"': '"|double quote',
    "*": "asterisk|*",
    "π": "pi",
    "e": "mathe|e|ème",
    "er": "er",
    "°": "°",
    "ʻ": "okina|ʻ",
    "ʿ": "ayin|ayn",
    "ʾ": "hamza",
    "’": "’",
    "#": "hash|#",
    "(": "(|paren",
    ")": ")",
    "...": "...|ellipsis|…",
    "av. J.-C.": "av jc|avjc|av. j.-c.|-jc",
    "apr. J.-C.": "ap jc|apjc",
    "a. C.": "ac|a. c.",
    "d. C.": "dc|d. c.",
    "n°": "numéro|n°",
}
_HANDLERS: dict[str, _Handler] = {
    **{name: handler for handler, names in _TEMPLATES for name in names.split("|")},
    **{ship.lower(): _named_ship(ship) for ship in _SHIPS},
    **{name: _fixed(text) for text, names in _CHARACTERS.items() for name in names.split("|")},
}
_TEXT_FUNCTIONS = frozenset({"formatnum", "lc", "uc", "lcfirst", "ucfirst", "#formatdate", "nowrap", "nosmw"})
