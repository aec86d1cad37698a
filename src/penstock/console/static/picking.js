// Picking rows: counts the picked ones, and picks all or none at once.
export function startPicking() {
  const form = document.querySelector("[data-picking]");
  const all = form?.querySelector("[data-pick-all]");
  if (!all) return;
  const boxes = () => [...form.querySelectorAll("input[name=pick]")];
  const tell = () => {
    const count = boxes().filter((each) => each.checked).length;
    form.querySelector("[data-picked]").textContent = count ? `${count} picked` : "Pick";
    all.checked = count > 0 && count === boxes().length;
    all.indeterminate = count > 0 && count < boxes().length;
    for (const button of form.querySelectorAll("button[formaction]")) button.disabled = !count;
  };
  all.addEventListener("change", () => {
    for (const each of boxes()) each.checked = all.checked;
    tell();
  });
  form.addEventListener("change", tell);
  tell();
}
