// Elements. Text of events enters the page through `textContent` only: nothing here takes markup.

export const make = (name, text = "", className = "") => {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  if (className) made.className = className;
  return made;
};

// A name from a stranger: isolated, so that letters written from right to left cannot move their neighbours.
export const named = (text, className = "") => make("bdi", text, className);

export const button = (text, does, { label = "", className = "" } = {}) => {
  const made = make("button", text, className);
  made.type = "button";
  if (label) {
    made.setAttribute("aria-label", label);
    made.title = label;
  }
  made.addEventListener("click", does);
  return made;
};

export const pairs = (entries) => {
  const list = make("dl");
  for (const [key, value, className] of entries) {
    const row = make("div");
    const shown = make("dd", "", className ?? "");
    shown.append(value instanceof Node ? value : named(String(value)));
    const title = make("dt");
    title.append(named(key));
    row.append(title, shown);
    list.append(row);
  }
  return list;
};
