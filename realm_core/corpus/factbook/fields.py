"""Values of The World Factbook as parts of plain sentences: without markup, remarks, and names in capitals."""

from __future__ import annotations

import html
import re

_TAG = re.compile(r"<[^>]*>")
_BREAK = re.compile(r"\s*(?:</?p[^>]*>|<br\s*/?>|\n)\s*")
_GAP = re.compile(r"(?<=[\w)%])\s*<br\s*/?>\s*<br\s*/?>")
_LABEL = re.compile(r"\s*<(strong|b|em)>\s*[^<]{1,60}:\s*</\1>\s*:?", re.IGNORECASE)
# "; note - the US Embassy is in Abidjan", "<strong>note 1:</strong> …", up to the end.
_NOTE = re.compile(r"[\s;,(]*\bnotes?(?: \d+)?\s*[:–-]\s.*", re.IGNORECASE | re.DOTALL)
_BRACKETS = re.compile(r"\s*\([^()]*\)|\s*\[[^\[\]]*\]")
_YEAR = re.compile(r"\s*\((?:[A-Z][a-z]+ )?(\d{4})(?:-\d\d)?,?(?:\s*est\.?)?\)\s*")
_REFERENCE = re.compile(r",? as shown in this [\w ]*map|; see [^;.]*|\s*\(see [^()]*\)")
_LONGEST = 450  # characters: about a third of a block
_SHARE = re.compile(r"^(.*?),?\s+((?:less than |about |approximately |<)?\d*\.?\d+%)\s*(.*)$")
_CAPITALS = re.compile(r"(?<!\w)[A-ZÀ-Þ]+(?:['’-][A-ZÀ-Þ]+)*(?!\w)")
_PARTICLE = re.compile(r"(?<=\w )(?:DA|DE|DI|DO|DOS|DU|LA|VON|VAN|DEL|BIN)(?= [A-ZÀ-Þ]{2})")
_SHORT_NAME = re.compile(r"\b(?:HU|LI|XI)\b")  # shorter than `_CAPITALS` takes for a name
_NOT_NAMES = frozenset(
    # Roman numerals, then abbreviations: everything else in capitals is a name.
    "I II III IV V VI VII VIII IX X XII XIII XIV XV XVI "
    "ADF AIDS ANC ANZAC ANZUS APC AQIM ASEAN BBC BIOT BNP BRI BRICS BSAC BVI CAR CARICOM CCM CCP CEMAC CEPA CIA CMA "
    "CNMI CNRD CNSP CNT COFA COVID CPN-M CPN-UML CPP DPP DPRK DRC DROC DST ECCU ECOWAS ECSC EDSA EEA EEBC EEC EFTA "
    "EPRDF EU-UK EUFOR FARC FDI FDLR FDRE FIFA FIS FLN FRELIMO FRG FRY FSM FUNCINPEC GCC GDP GDR GEODSS GMT GNC GNU "
    "GPS HAMAS HIPC HIV HKSAR HMS ICU IDF IMF ISIS ISIS-DRC JCPOA KANU KKTC KMT KRG KWP LDC LNA LNG LPA LTTE MCP MMD "
    "MONUSCO MORENA MOU MPLA MPP NAFTA NARC NASA NATO NCPO NDC NGO NLD NPP NRPC NTC NUG OAS OECD OECS OLA OPBAT OPEC "
    "PAN PDF PDG PDR PJD PKK PLC PLO PNC PNG PPM PRC PRI PRK RDC RENAMO RMI RNI ROK RPA RPF RPT RSA SACU SADC SBA SDF "
    "SFG SFOR SFRY SGSSI SLPP SRV STC SWAPO TAAF TCA TFG TMC TPLF TPP TRNC TTP TTPI UAE UAV UML UMNO UNESCO UNITA "
    "UNMIK UNMO UNSC USA USD USMCA USSR UTC VHP WAEMU WTO WWII".split()
)


def plain(value: str) -> str:
    """One line of text without markup. Quotation marks are curled, so that none can be taken for markup."""
    text = _BREAK.sub(" ", _GAP.sub("; ", html.unescape(value)))
    text = _TAG.sub("", text).replace("\xa0", " ").replace("<", "less than ")
    text = re.sub(r"([,;])”", r"”\1", re.sub(r'"([^"]*)"', r"“\1”", text)).replace('"', "")
    return re.sub(r"\s+", " ", text).strip()


def paragraphs(value: str) -> list[str]:
    """The paragraphs of a text of prose, names in ordinary letters."""
    return [names(text) for part in _BREAK.split(html.unescape(value)) if (text := plain(part))]


def notes(value: str) -> list[str]:
    """The remarks of a field such as "Geography - note", without their numbers."""
    parts = re.split(r"<(?:strong|b)>\s*note(?: \d+)?\s*:?\s*</(?:strong|b)>:?", html.unescape(value))
    return [names(text) for part in parts if (text := plain(part).rstrip(" ;."))]


def fact(value: str) -> str:
    """The value itself: without markup, labels and remarks. Empty for none and not available."""
    text = plain(_LABEL.sub("", _NOTE.sub("", _TAG.sub(_kept_label, html.unescape(value)))))
    text = text.rstrip(" ;,.") if not text.endswith("D.C.") else text
    return "" if text.lower() in ("na", "none", "n/a", "") or text.startswith("NA ") else text


def _kept_label(tag: re.Match[str]) -> str:
    return tag.group() if re.fullmatch(r"</?(?:strong|b|em|br\s*/?|p)>", tag.group()) else ""


def without_brackets(text: str) -> str:
    while (shorter := _BRACKETS.sub("", text)) != text:
        text = shorter
    return text.strip(" ;,")


def dated(text: str) -> tuple[str, str]:
    """A value and its year: "97% (2023 est.)" → "97%", "2023". The last year counts; "" if there is none."""
    years = _YEAR.findall(text)
    return _YEAR.sub(" ", text).strip(), years[-1] if years else ""


def pieces(text: str, separators: str = ",;") -> list[str]:
    """The items of an enumeration; separators in brackets and within numbers do not count."""
    found, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        in_number = text[place - 1 : place].isdigit() and text[place + 1 : place + 2].isdigit()
        if depth <= 0 and character in separators and not in_number:
            found.append(text[start:place])
            start = place + 1
    found.append(text[start:])
    return [piece for one in found if (piece := re.sub(r"^and ", "", one.strip()))]


def share(piece: str) -> tuple[str, str]:
    """ "Muslim (official) 99%" → "Muslim", "99%"; "" without a share."""
    text = without_brackets(piece)
    found = _SHARE.match(text)
    return (found[1].strip(), found[2]) if found else (text, "")


def enumerated(items: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def names(text: str) -> str:
    """Surnames, which the source writes in capitals, in ordinary letters."""
    text = _PARTICLE.sub(lambda found: found.group().lower(), text)
    text = _SHORT_NAME.sub(lambda found: found.group().capitalize(), text)
    return _CAPITALS.sub(lambda found: _in_letters(found.group()), text)


def _in_letters(word: str) -> str:
    letters = sum(letter.isalpha() for letter in word)
    core = re.sub(r"['’]S?$", "", word)
    if letters < 3 or core in _NOT_NAMES:
        return word
    return re.sub(r"[A-ZÀ-Þ]+", lambda part: part.group().capitalize(), word)


def shortened(text: str) -> str:
    """As many of its clauses as a sentence can hold, without references to other entries and maps."""
    kept = ""
    for clause in pieces(_REFERENCE.sub("", text), ";"):
        if kept and len(kept) + len(clause) > _LONGEST:
            break
        kept += f"; {clause}" if kept else clause
    return kept


def first_upper(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
