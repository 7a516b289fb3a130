// What the address after # says: enough to see the same again. Names may hold anything, so they are parameters of
// their own. The address is replaced, not pushed: going back leaves the page instead of undoing a drag.

const ONE = ["source", "execution", "axis", "selected", "where", "cut", "against", "othersource"];
const NUMBERS = ["at", "width"]; // The time in the middle, and how much time is shown.
const MANY = ["hidden", "folded", "order"];

export const readState = (hash = location.hash) => {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const state = {};
  for (const key of ONE) state[key] = query.get(key);
  for (const key of NUMBERS) {
    const number = query.has(key) ? Number(query.get(key)) : NaN;
    state[key] = Number.isFinite(number) ? number : null;
  }
  for (const key of MANY) state[key] = query.getAll(key);
  return state;
};

export const hashOf = (state) => {
  const query = new URLSearchParams();
  for (const key of ONE) if (state[key] !== null && state[key] !== undefined) query.set(key, state[key]);
  for (const key of NUMBERS) if (state[key] !== null && state[key] !== undefined) query.set(key, String(state[key]));
  for (const key of MANY) for (const one of state[key] ?? []) query.append(key, one);
  const text = query.toString();
  return text ? `#${text}` : "";
};

let timer = 0;
let written = null;
export const writeState = (state) => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const hash = hashOf(state());
    if (hash === written) return;
    written = hash;
    history.replaceState(null, "", hash || location.pathname + location.search);
  }, 250);
};

// Somebody typed or followed another address of this page.
export const onState = (changed) => addEventListener("hashchange", () => {
  if (location.hash !== written) changed(readState());
});
