"""Small MediaWiki dumps, written by the tests themselves."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename><dbname>enwiki</dbname>
    <base>http://en.wikipedia.org/wiki/Main_Page</base>
    <namespaces>
      <namespace key="-1">Special</namespace><namespace key="0" /><namespace key="1">Talk</namespace>
    </namespaces>
  </siteinfo>
"""
TAIL = "</mediawiki>\n"


def page(title: str, text: str, *, number: int = 1, namespace: int | None = 0, redirect: str = "") -> str:
    ns = "" if namespace is None else f"<ns>{namespace}</ns>"
    to = f"<redirect title={quoteattr(redirect)} />" if redirect else ""
    return (
        f"  <page><title>{escape(title)}</title>{ns}<id>{number}</id>{to}"
        f"<revision><id>{number + 10_000_000}</id><contributor><username>A</username><id>9</id></contributor>"
        f'<model>wikitext</model><text bytes="{len(text)}" xml:space="preserve">{escape(text)}</text>'
        "</revision></page>\n"
    )


def dump(*pages: str) -> bytes:
    return (HEAD + "".join(pages) + TAIL).encode()
