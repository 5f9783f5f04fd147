"""Reads a page of `millrace report` or `view --html` as strictly as a parser can, and compares a report with
metrics.jsonl.

    report_page.py PAGE [METRICS]     prints one JSON object: titles of points, tables, texts, pictures' alt texts
"""

import base64
import html.parser
import json
import re
import sys

VOID = {"meta", "link", "br", "hr", "img", "input"}
ALLOWED = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "a",
           "section", "h1", "h2", "h3", "p", "b", "span", "small", "code", "ul", "li", "dl", "dt",
           "dd", "div", "figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td", "svg",
           "line", "path", "circle", "text", "img"}


def fail(message):
    raise SystemExit(f"page: {message}")


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.hrefs, self.labels = [], set(), [], []
        self.titles, self.rows, self.texts, self.styles, self.svgs = [], [], [], [], 0
        self.headings, self.alts = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ALLOWED:
            fail(f"<{tag}>")
        names = dict(attrs)
        if len(names) < len(attrs):
            fail(f"an attribute twice: {attrs}")
        if tag == "img":
            self.check_picture(names)
        for name, value in attrs:
            if tag == "img" and name == "src":
                continue
            if name in ("src", "srcset", "data", "action", "style") and not (
                    name == "style" and re.fullmatch(r"width:[0-9.]+%", value)):
                fail(f"{name}={value}")
            if name.startswith("on"):
                fail(f"a script: {name}")
        if "id" in names:
            if names["id"] in self.ids:
                fail(f"id {names['id']} twice")
            self.ids.add(names["id"])
        if "href" in names:
            self.hrefs.append(names["href"])
        if "aria-labelledby" in names:
            self.labels.append(names["aria-labelledby"])
        if tag == "svg":
            self.svgs += 1
            if names.get("role") != "img" or not names.get("aria-label"):
                fail("a picture without a description")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def check_picture(self, names):
        for kind, begin in (("jpeg", b"\xff\xd8\xff"), ("png", b"\x89PNG")):
            head = f"data:image/{kind};base64,"
            if names["src"].startswith(head):
                if not base64.b64decode(names["src"][len(head):], validate=True).startswith(begin):
                    fail(f"a picture that is no {kind}")
                break
        else:
            fail(f"a picture from {names['src'][:80]}")
        if not names.get("alt") or not int(names["width"]) or not int(names["height"]):
            fail("a picture without a description or size")
        self.alts.append(names["alt"])

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            fail(f"</{tag}> within {self.open}, at {self.getpos()}")
        self.open.pop()

    def handle_data(self, data):
        if not self.open:
            if data.strip():
                fail(f"text outside: {data}")
            return
        where = self.open[-1]
        if where == "style":
            self.styles.append(data)
        elif where == "title" and "circle" in self.open:
            self.titles.append(data)
        else:
            if "td" in self.open or "th" in self.open:
                self.rows[-1][-1] += data
            if where in ("h1", "h2"):
                self.headings.append(data)
            self.texts.append(data)


def check(page, text):
    if page.open:
        fail(f"not closed: {page.open}")
    for href in page.hrefs:
        if not href.startswith("#") or href[1:] not in page.ids:
            fail(f"refers to {href}")
    for label in page.labels:
        if label not in page.ids:
            fail(f"labelled by {label}, which is not there")
    for style in page.styles:
        for outside in ("url(", "@import", "expression", "//"):
            if outside in style:
                fail(f"a style with {outside}")
    if len(page.styles) != 1 or "<script" in text.lower():
        fail("one style, and no script")


def share(value):
    return f"{100 * value:.1f} %"


def compare(page, metrics):
    epochs = {}
    for line in open(metrics):
        event = json.loads(line)
        if event["event"] == "epoch":
            epochs = {number: one for number, one in epochs.items() if number < event["epoch"]}
            epochs[event["epoch"]] = event
    for number, epoch in epochs.items():
        wanted = [f"epoch {number}", str(epoch["train_samples"]), str(epoch["skipped"])]
        if wanted not in [row[:3] for row in page.rows]:
            fail(f"the ledger has no row {wanted}: {page.rows}")
        if epoch.get("val_top1") is not None:
            point = f"val, step {epoch['global_step']}: {share(epoch['val_top1'])}"
            if point not in page.titles:
                fail(f"no point {point}: {page.titles}")
    return epochs


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    page = Page()
    page.feed(text)
    page.close()
    check(page, text)
    epochs = compare(page, sys.argv[2]) if len(sys.argv) > 2 else {}
    print(json.dumps({"titles": page.titles, "rows": page.rows, "text": " ".join(page.texts),
                      "headings": page.headings, "alts": page.alts, "pictures": page.svgs, "epochs": len(epochs)}))


main()
