"""Checks the links of a built site: files, anchors, images, and the files of the repository that it links to.

    check.py REPOSITORY SITE

Prints each broken link and exits with 1 if there is one. Addresses in the web are not asked.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

REPOSITORY = "/duebox/duebox/"


class Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def fault(root, site, pages, path, link):
    """What is wrong with a link, if anything."""
    parts = urlsplit(link)
    if parts.netloc == "github.com" and parts.path.startswith(REPOSITORY):
        kind, _, rest = parts.path.removeprefix(REPOSITORY).partition("/main/")
        if kind in ("blob", "tree") and not (root / unquote(rest)).exists():
            return "the repository has no such file"
    if parts.scheme or parts.netloc:
        return None
    to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if to.is_dir():
        to /= "index.html"
    if not to.is_relative_to(site) or not to.is_file():
        return "no such file"
    if parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].anchors:
        return "no such anchor"
    return None


def main():
    root, site = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    # 404.html has a base of its own, and toc.html is shown in a frame.
    paths = [path for path in site.rglob("*.html") if path.name not in ("404.html", "toc.html")]
    pages = {path: Page(path) for path in paths}
    faults = [
        f"{path.relative_to(site)}: {link}: {found}"
        for path, page in sorted(pages.items())
        for link in page.links
        if (found := fault(root, site, pages, path, link))
    ]
    links = sum(len(page.links) for page in pages.values())
    print(*faults, f"{links} links in {len(pages)} pages, {len(faults)} broken", sep="\n")
    sys.exit(1 if faults or links < 1000 else 0)


main()
