"""The page itself: sections into one HTML file that needs nothing else."""

import pathlib
import re

import jinja2
from markupsafe import Markup, escape

from .overview import cards

HERE = pathlib.Path(__file__).resolve().parent


def breakable(text):
    """A long name may break after its punctuation."""
    return Markup(re.sub(r"([/_,])(?=\w)", r"\1<wbr>", str(escape(text))))


def page(title, files, sections, first=()):
    """The text of the page; the sections `first` come before what ran where."""
    loader = jinja2.FileSystemLoader(HERE)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["drawn"] = Markup  # SVG of our own making
    environment.filters["breakable"] = breakable
    return environment.get_template("page.html").render(
        title=title, cards=cards(files), first=list(first), sections=sections, style=Markup((HERE / "page.css").read_text()),
        script=Markup((HERE / "page.js").read_text()))
