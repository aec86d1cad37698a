// The theme: light, dark, or the system's; stored in this browser only.
const THEMES = ["", "light", "dark"];
const NAME = "penstock-theme";

export function startTheme() {
  show(stored());
  const button = document.querySelector("[data-theme-toggle]");
  button?.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
    try {
      localStorage.setItem(NAME, next);
    } catch {
      // Without storage the theme lasts until the next page.
    }
    show(next);
  });
}

function stored() {
  try {
    const found = localStorage.getItem(NAME) ?? "";
    return THEMES.includes(found) ? found : "";
  } catch {
    return document.documentElement.dataset.theme ?? "";
  }
}

function show(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
