"use strict";
// The search box, and the panel of the chosen node with the nodes nearest to it.

// A box with suggestions, after the pattern "combobox with a list": arrows choose, Enter takes, Escape closes.
function searchBox(suggest, taken) {
  const list = make("ul", { id: "suggestions", role: "listbox", "aria-label": "Ids", hidden: true });
  const box = make("input", {
    type: "search",
    id: "search-box",
    placeholder: "Find a node by its id",
    "aria-label": "Find a node by its id",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "suggestions",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const state = { ids: [], active: -1, asked: 0 };
  const close = () => {
    list.hidden = true;
    state.active = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const take = (id) => {
    box.value = id;
    close();
    taken(id);
  };
  const activate = (place) => {
    state.active = place;
    Array.from(list.children).forEach((item, at) => item.setAttribute("aria-selected", String(at === place)));
    box.setAttribute("aria-activedescendant", `suggestion-${place}`);
    list.children[place]?.scrollIntoView({ block: "nearest" });
  };
  const show = (ids) => {
    state.ids = ids;
    state.active = -1;
    const options = ids.map((id, place) =>
      make(
        "li",
        {
          id: `suggestion-${place}`,
          role: "option",
          "aria-selected": "false",
          mousedown: (event) => {
            event.preventDefault();
            take(id);
          },
        },
        brief(id),
      ),
    );
    list.replaceChildren(...(ids.length ? options : [make("li", { class: "none" }, "No id has that in it.")]));
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
  };
  const typed = async () => {
    const asked = ++state.asked;
    const text = box.value.trim();
    if (!text) return close();
    const ids = await suggest(text);
    if (asked === state.asked && document.activeElement === box) show(ids);
  };
  const pressed = async (event) => {
    if (event.key === "Escape") return close();
    if (event.key === "Enter") {
      state.asked++;
      const ids = state.active >= 0 ? [state.ids[state.active]] : await suggest(box.value.trim());
      if (ids.length) take(ids[0]);
      else complain(`There is no node ${brief(JSON.stringify(box.value))}.`);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden && state.ids.length) {
      event.preventDefault();
      activate((state.active + step + state.ids.length) % state.ids.length);
    }
  };
  box.addEventListener("input", () => typed().catch((error) => complain(error.message)));
  box.addEventListener("keydown", (event) => pressed(event).catch((error) => complain(error.message)));
  box.addEventListener("blur", close);
  return [box, list];
}

function hint() {
  return [
    make("h3", {}, "Node"),
    make(
      "p",
      { class: "note" },
      "Click a point, or find an id, to see what is known of it and which nodes are most like it.",
    ),
  ];
}

function columnList(run, row) {
  const cells = run.columns.flatMap((column) => {
    const text = cellText(column, row);
    return [
      make("dt", {}, brief(column.name, 40)),
      make("dd", { class: text === null ? "empty" : null }, text ?? "no value"),
    ];
  });
  return make("dl", { class: "cells" }, cells);
}

// The nearest nodes of one run as buttons that move on to them; `shared` ids are near in every run.
function neighborList(run, neighbors, colorOf, valueOf, choose, shared = new Set()) {
  const item = ({ row, similarity }) => {
    const id = run.ids[row];
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = colorOf(row);
    return make(
      "li",
      { class: shared.has(id) ? "shared" : null },
      button(
        [
          swatch,
          make("span", { class: "id" }, brief(id, 40)),
          make("span", { class: "what" }, brief(valueOf(row), 20)),
          make("span", { class: "value" }, similarity.toFixed(4)),
        ],
        { class: "neighbor", title: brief(id, 200) },
        () => choose(id),
      ),
    );
  };
  return make("ol", { class: "neighbors" }, neighbors.map(item));
}
