"""Puts the pages of docs/ and the README where mdBook takes them from.

    stage.py REPOSITORY FOLDER

The README becomes the first page, the index of docs/ the list of contents, and the order of that index the order of the
book. A page that the index does not lead to is an error. A link to a page of the book stays a link in the book; one to
another file of the repository leads to the repository in the web.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

REPOSITORY = "https://github.com/duebox/duebox"
# A link in Markdown: the text's end, the target, and what closes it.
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*```")


def place(root, path):
    """Where a page of the repository is in the book, or None."""
    path = path.relative_to(root)
    if path == Path("README.md"):
        return Path("README.md")
    if path == Path("docs/README.md"):
        return Path("contents.md")
    return path.relative_to("docs") if path.parts[0] == "docs" else None


def target(root, page, link):
    """What a link of a page is in the book."""
    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return link
    path = Path(os.path.normpath(page.parent / parts.path))
    if not path.exists() or not path.is_relative_to(root):
        sys.exit(f"{page.relative_to(root)}: there is no {link}")
    anchor = f"#{parts.fragment}" if parts.fragment else ""
    to = place(root, path)
    if path.is_file() and to is not None:
        # mdBook writes README.md as index.html, but does not change links to it.
        to = to.with_name(to.name.replace("README.md", "index.md"))
        return Path(os.path.relpath(to, place(root, page).parent)).as_posix() + anchor
    kind = "tree" if path.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{path.relative_to(root).as_posix()}{anchor}"


def staged(root, page):
    """The text of a page, with its links as they are in the book."""
    lines, is_code = [], False
    for line in page.read_text().splitlines():
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            line = LINK.sub(lambda found: found[1] + target(root, page, found[2]) + found[3], line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def title(page):
    """The heading of a page."""
    return next(line[2:].strip() for line in page.read_text().splitlines() if line.startswith("# "))


def summary(root, pages):
    """mdBook's table of contents, in the order of the index."""
    index = root / "docs/README.md"
    lines, seen = ["# Summary", "", "[Duebox](README.md)", "[Contents](contents.md)"], {index}

    def add(page, indent=""):
        seen.add(page)
        lines.append(f"{indent}- [{title(page)}]({place(root, page).as_posix()})")
        if page.name == "README.md":
            for below in sorted(page.parent.glob("*.md")):
                if below not in seen:
                    add(below, indent + "  ")

    for line in index.read_text().splitlines():
        if line.startswith("## "):
            lines += ["", f"# {line[3:].split(':')[0]}", ""]
        for link in LINK.findall(line):
            page = Path(os.path.normpath(index.parent / urlsplit(link[1]).path))
            if page in pages and page not in seen:
                add(page)
    forgotten = [page for page in pages if page not in seen]
    if forgotten:
        sys.exit(f"docs/README.md does not lead to {', '.join(str(page.relative_to(root)) for page in forgotten)}")
    return "\n".join(lines) + "\n"


def without_empty_parts(text):
    """A part of the book without a chapter is not a part."""
    parts = re.split(r"(?m)^(?=# )", text)
    return "".join(part for part in parts if "](" in part or part.startswith("# Summary"))


def main():
    root, into = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(root / "docs", into, ignore=shutil.ignore_patterns("*.md"))
    pages = sorted((root / "docs").rglob("*.md"))
    for page in [root / "README.md", *pages]:
        to = into / place(root, page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(staged(root, page))
    (into / "SUMMARY.md").write_text(without_empty_parts(summary(root, pages)))
    print(f"{len(pages) + 1} pages")


main()
