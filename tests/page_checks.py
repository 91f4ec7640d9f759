"""Questions to the browser about a page: cut, broken, covered or faint texts, and what a screen reader is given."""

from __future__ import annotations

# The visible texts of the page: pairs of a text node and the element that contains it.
_TEXTS = """
  const visibleTexts = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
      const text = walker.currentNode, element = text.parentElement;
      if (!text.textContent.trim() || element.closest("script, style, noscript, option, .unseen, .skip")) continue;
      if (element.checkVisibility({ visibilityProperty: true })) found.push([text, element]);
    }
    return found;
  };
  const inside = (text, from, to) => {
    const range = document.createRange();
    range.setStart(text, from);
    range.setEnd(text, to);
    return Array.from(range.getClientRects()).filter(({ width }) => width > 0);
  };
  const short = (text) => text.textContent.trim().slice(0, 60);
"""

# Texts that leave the box they are in or the screen. Wide tables scroll sideways; the charts are drawings.
_CUT = """() => {
  const isCut = ([text, element]) => {
    if (element.closest("svg")) return false;
    let box = element;
    while (getComputedStyle(box).display.startsWith("inline") && !box.matches("button")) box = box.parentElement;
    const { left, right } = box.getBoundingClientRect();
    const high = box.closest(".wide") ? right : Math.min(right, window.innerWidth);
    return inside(text, 0, text.length).some((part) => part.left < left - 1 || part.right > high + 1);
  };
  return visibleTexts().filter(isCut).map(([text]) => short(text));
}"""

# Words of at most 14 letters on two lines; longer ones may have to be broken on a phone.
_BROKEN = """() => {
  const broken = [];
  for (const [text, element] of visibleTexts()) {
    if (element.closest("svg")) continue;
    for (const { 0: word, index } of text.textContent.matchAll(/(?<!\\S)[\\p{L}]{2,14}(?!\\S)/gu)) {
      const tops = inside(text, index, index + word.length).map(({ top }) => Math.round(top));
      if (Math.max(...tops) - Math.min(...tops) > 4) broken.push(word);
    }
  }
  return broken;
}"""

_OVERLAPPING = """(selector) => {
  const items = Array.from(document.querySelectorAll(selector))
    .filter((element) => element.checkVisibility({ visibilityProperty: true }))
    .map((element) => ({ box: element.getBoundingClientRect(), text: element.textContent.slice(0, 40) }));
  const meet = (a, b) =>
    a.left < b.right - 0.5 && a.right > b.left + 0.5 && a.top < b.bottom - 0.5 && a.bottom > b.top + 0.5;
  return items.flatMap((a, i) => items.slice(i + 1).flatMap((b) => (meet(a.box, b.box) ? [[a.text, b.text]] : [])));
}"""

# Texts whose contrast with what is behind them is below that of WCAG 2.2, level AA. Disabled buttons are exempt.
_FAINT = """() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((channel, i) => channel * a + below[i] * (1 - a));
  const ancestors = (element) => (element ? [...ancestors(element.parentElement), element] : []);
  const luminance = (color) => {
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (element, style) => {
    let behind = [255, 255, 255], opacity = 1;
    for (const each of ancestors(element)) {
      behind = over(parse(getComputedStyle(each).backgroundColor), behind);
      opacity *= Number(getComputedStyle(each).opacity);
    }
    const [r, g, b, a] = parse(element.closest("svg") ? style.fill : style.color);
    const [high, low] = [over([r, g, b, a * opacity], behind), behind].map(luminance).sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const isLarge = ({ fontSize, fontWeight }) => parseFloat(fontSize) >= (Number(fontWeight) >= 700 ? 18.66 : 24);
  const texts = visibleTexts().filter(([, element]) => !element.closest(":disabled"));
  const inputs = Array.from(document.querySelectorAll("input[placeholder]")).filter((input) => input.checkVisibility());
  const styled = [
    ...texts.map(([text, element]) => [short(text), element, getComputedStyle(element)]),
    ...inputs.map((input) => [input.placeholder, input, getComputedStyle(input, "::placeholder")]),
  ];
  return styled.flatMap(([text, element, style]) => {
    const found = contrast(element, style);
    return found < (isLarge(style) ? 3 : 4.5) ? [`${text}: ${found.toFixed(2)}`] : [];
  });
}"""


def _ask(page, question, given=None):
    return page.evaluate(f"(given) => {{{_TEXTS} return ({question})(given); }}", given)


def cut_texts(page):
    return _ask(page, _CUT)


def broken_words(page):
    return _ask(page, _BROKEN)


def overlapping(page, selector):
    return _ask(page, _OVERLAPPING, selector)


def faint_texts(page):
    return _ask(page, _FAINT)


def accessible_nodes(page):
    """(role, name) of all that a screen reader is given."""
    devtools = page.context.new_cdp_session(page)
    found = devtools.send("Accessibility.getFullAXTree")["nodes"]
    told = [node for node in found if not node["ignored"]]
    return [(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in told]
