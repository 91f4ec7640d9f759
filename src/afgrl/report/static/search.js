"use strict";
// The search box: a combobox with a list of suggested ids. Arrow keys move, Enter chooses, Escape closes.

// `what` is "id", or "id or name"; `label(id)` is the text of a suggestion.
function searchBox(suggest, onChoose, what, label) {
  const list = make("ul", { id: "suggestions", role: "listbox", "aria-label": "Nodes", hidden: true });
  const input = make("input", {
    type: "search",
    id: "search-box",
    placeholder: `Find a node by its ${what}`,
    "aria-label": `Find a node by its ${what}`,
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": "suggestions",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const state = { ids: [], active: -1, request: 0 };
  const close = () => {
    list.hidden = true;
    state.active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const chooseId = (id) => {
    input.value = id;
    close();
    onChoose(id);
  };
  const activate = (index) => {
    state.active = index;
    Array.from(list.children).forEach((item, i) => item.setAttribute("aria-selected", String(i === index)));
    input.setAttribute("aria-activedescendant", `suggestion-${index}`);
    list.children[index]?.scrollIntoView({ block: "nearest" });
  };
  const show = (ids) => {
    state.ids = ids;
    state.active = -1;
    const options = ids.map((id, index) => suggestion(id, label(id), index, chooseId));
    list.replaceChildren(...(ids.length ? options : [make("li", { class: "none" }, `No ${what} contains this text.`)]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
  };
  const onInput = async () => {
    const request = ++state.request;
    const text = input.value.trim();
    if (!text) return close();
    const ids = await suggest(text);
    if (request === state.request && document.activeElement === input) show(ids);
  };
  const onKey = async (event) => {
    if (event.key === "Escape") return close();
    if (event.key === "Enter") {
      state.request++;
      const ids = state.active >= 0 ? [state.ids[state.active]] : await suggest(input.value.trim());
      if (ids.length) chooseId(ids[0]);
      else showError(`Unknown node ${truncate(JSON.stringify(input.value))}.`);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden && state.ids.length) {
      event.preventDefault();
      activate((state.active + step + state.ids.length) % state.ids.length);
    }
  };
  input.addEventListener("input", () => onInput().catch((error) => showError(error.message)));
  input.addEventListener("keydown", (event) => onKey(event).catch((error) => showError(error.message)));
  input.addEventListener("blur", close);
  return [input, list];
}

function suggestion(id, text, index, chooseId) {
  const onPress = (event) => {
    event.preventDefault(); // keeps the focus in the input, whose blur would close the list
    chooseId(id);
  };
  const attributes = { id: `suggestion-${index}`, role: "option", "aria-selected": "false", mousedown: onPress };
  return make("li", attributes, truncate(text));
}
