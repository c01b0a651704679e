// Highlights one stack in every figure, lets figures be taken as files, and opens what is folded before printing. Nothing of
// the page depends on it; the script of served pages uses `window.taking`.
(() => {
  const PNG_SCALE = 2;
  // what a file needs of the page's style
  const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight"];
  const taken = (svg) => {
    const copy = svg.cloneNode(true);
    const [all, copies] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    const own = all.map((part) => part.closest(".cursor, .window") !== null);
    copies.forEach((part, at) => {
      if (own[at] || part.tagName === "metadata" || part.tagName === "title") return;
      const style = getComputedStyle(all[at]);
      if (style.display === "none") { own[at] = true; return; }
      PAINT.forEach((name) => part.setAttribute(name, style.getPropertyValue(name)));
      ["class", "tabindex", "data-x", "data-y", "data-n", "data-ready", "style", "aria-keyshortcuts"].forEach((name) => part.removeAttribute(name));
    });
    copies.forEach((part, at) => { if (own[at]) part.remove(); });
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute("xmlns", svg.namespaceURI);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const card = document.createElementNS(svg.namespaceURI, "rect");
    card.setAttribute("width", "100%");
    card.setAttribute("height", "100%");
    card.setAttribute("fill", getComputedStyle(svg.closest("figure") || document.body).backgroundColor);
    copy.prepend(card);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const give = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const picture = async (svg) => {
    const { text, width, height } = taken(svg);
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width * PNG_SCALE, height * PNG_SCALE];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(image.src);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };
  const button = (text, label, act) => {
    const part = document.createElement("button");
    part.type = "button";
    part.textContent = text;
    part.title = label;
    part.setAttribute("aria-label", label);
    part.addEventListener("click", act);
    return part;
  };
  // SVG, PNG and, unless it is had otherwise, the figures behind it
  const buttons = (svg, withData) => {
    const name = (svg.getAttribute("aria-label") || "figure").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
    const all = [
      button("SVG", "take the drawing as SVG", () => give(new Blob([taken(svg).text], { type: "image/svg+xml" }), `${name}.svg`)),
      button("PNG", "take the drawing as PNG", async () => give(await picture(svg), `${name}.png`)),
    ];
    const data = svg.querySelector(":scope > metadata");
    if (data && withData) all.push(button("Data", "take the data as CSV", () => give(new Blob([data.textContent], { type: "text/csv" }), `${name}.csv`)));
    return all;
  };
  window.taking = { button, buttons };

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
  // a page that is served has more tools (figure.js)
  if (document.querySelector("nav.web") === null) document.querySelectorAll("main figure svg").forEach((svg) => {
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.append(...buttons(svg, true));
    svg.closest("figure").append(tools);
  });
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });
})();
