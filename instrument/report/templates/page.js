// Highlights one stack in every figure, and opens what is folded before printing. Nothing depends on it.
(() => {
  const root = document.documentElement;
  let chosen = null;
  const choose = (ink) => {
    chosen = chosen === ink ? null : ink;
    document.querySelectorAll("[data-ink]").forEach((part) => {
      const on = part.dataset.ink === chosen;
      part.classList.toggle("dim", chosen !== null && !on);
      if (part.tagName === "BUTTON") part.setAttribute("aria-pressed", String(on));
    });
    document.querySelectorAll("main figure svg [class]").forEach((part) => {
      const inks = [...part.classList].filter((name) => /^s(\d|c)$/.test(name));
      part.classList.toggle("dim", chosen !== null && inks.length > 0 && !inks.includes(chosen));
    });
  };
  root.classList.add("scripted");
  document.querySelectorAll(".legend button").forEach((button) => {
    button.addEventListener("click", () => choose(button.dataset.ink));
  });
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });
})();
