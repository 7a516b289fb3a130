// The colours of diagram/sheet.py (a test compares them), and the choice between light and dark.

export const LIGHT = {
  paper: "#ffffff", ink: "#1e2a36", muted: "#66727f", message: "#5f6c7a", lane: "#cbd3db", tag: "#f2f5f8",
  tagBorder: "#d8dfe6", past: "#1c5fc4", future: "#a85a00", selected: "#6b2bd0", violation: "#c2183a", cut: "#0b7468",
};
export const DARK = {
  paper: "#12171d", ink: "#e4eaf0", muted: "#93a1af", message: "#94a2b0", lane: "#3c4854", tag: "#1c242d",
  tagBorder: "#303c48", past: "#74aaff", future: "#f0b05c", selected: "#bd9bff", violation: "#ff7389", cut: "#45cdbd",
};

const KEY = "beforehand.theme";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : prefersDark.matches;
};
export const palette = () => (isDark() ? DARK : LIGHT);

const remembered = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // Storage may be forbidden; then the choice lasts as long as the page.
  }
};

// Only who has the page for itself has a choice to offer; what is part of another page follows the reader's settings.
export const startTheme = (app, changed) => {
  const toggle = app.byId("theme");
  toggle.hidden = !app.whole;
  const use = (theme) => {
    for (const one of [document.documentElement, app.host]) one.dataset.theme = theme;
  };
  const show = () => {
    toggle.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    toggle.title = toggle.getAttribute("aria-label");
    toggle.textContent = isDark() ? "☀" : "☾";
    changed();
  };
  const before = app.whole ? remembered() : null;
  if (before === "light" || before === "dark") use(before);
  toggle.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    use(next);
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // See above.
    }
    show();
  });
  prefersDark.addEventListener("change", show);
  show();
};
