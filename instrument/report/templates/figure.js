// Figures of served pages: values under the pointer, zoom, one selection in all of them, and taking them away as files.
// The drawings are whole without it. A drawing says of each axis: pixels from and to, values low and high, linear or log, what
// is counted (data-x, data-y); so nothing here knows which figure it is.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const DRAG_MIN = 6; // pixels: less is a click
  const NEAR = 14; // pixels of the drawing within which a mark is meant
  const STEP = 1.6; // of one press of + or -
  const LINES_MAX = 8; // of a readout
  const kept = new Map(); // windows by the number of the figure, for those that are drawn anew
  const page = new URL(location.href);

  const digits = (value) => value === 0 ? "0" : Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  const scaled = (value, steps) => {
    for (const [size, unit] of steps) if (Math.abs(value) >= size * 0.9995) return `${digits(value / size)} ${unit}`.trim();
    return digits(value);
  };
  const depths = [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999, 0.999999];
  const write = {
    rate: (value) => scaled(value, [[1e9, "G"], [1e6, "M"], [1e3, "k"]]),
    ns: (value) => scaled(value, [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]]),
    seconds: (value) => `${digits(value)} s`,
    bytes: (value) => `${digits(value / 2 ** 20)} MiB/s`,
    share: (value) => `${digits(value * 100)} %`,
    tail: (value) => `${Number((value * 100).toPrecision(2))} %`,
    percentile: (value) => `p${Number((100 * (1 - 10 ** -value)).toFixed(Math.ceil(value)))}`,
    ratio: digits,
    count: digits,
    place: () => "",
  };

  const axis = (text) => {
    if (!text) return null;
    const [from, to, low, high, kind, unit] = text.split(" ");
    const log = kind === "log";
    const [a, b, f, t] = [low, high, from, to].map(Number);
    const flat = (value) => log ? Math.log(value) : value;
    const bent = (value) => log ? Math.exp(value) : value;
    return {
      from: f, to: t, low: a, high: b, log, unit,
      at: (value) => f + (flat(value) - flat(a)) / (flat(b) - flat(a)) * (t - f),
      value: (pixel) => bent(flat(a) + (pixel - f) / (t - f) * (flat(b) - flat(a))),
    };
  };
  const ticks = (low, high, whole) => {
    if (whole.unit === "place") return [];
    if (whole.unit === "percentile") return depths.map((share) => -Math.log10(1 - share)).filter((depth) => depth >= low && depth <= high);
    const inside = (value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
    if (whole.log && high / low > 30) {
      const tens = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) tens.push(10 ** power);
      return tens.filter(inside);
    }
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
    const all = [];
    for (let number = Math.ceil(low / step - 1e-9); number * step <= high * (1 + 1e-9) && all.length < 100; number++) all.push(number * step);
    return all;
  };
  const made = (name, attributes, text) => {
    const part = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
    if (text !== undefined) part.textContent = text;
    return part;
  };
  const { button, buttons } = window.taking; // page.js
  const ink = (part) => [...part.classList].find((name) => /^s(\d|c)$/.test(name));
  const trial = (part) => [...part.classList].find((name) => /^t\d+$/.test(name));

  // what is drawn of data, with its place before any zoom
  const marks = (svg) => [...svg.querySelectorAll(":scope > circle, :scope > path, :scope > rect, :scope > line:not(.grid)")].map((part) => {
    const title = part.querySelector("title");
    const said = title ? title.textContent : part.getAttribute("aria-label") || "";
    // the browser's own tooltip would lie over the readout
    if (title) { title.remove(); part.setAttribute("aria-label", said); }
    const number = (name) => Number(part.getAttribute(name));
    let points;
    if (part.tagName === "circle") points = [[number("cx"), number("cy")]];
    else if (part.tagName === "line") points = [[number("x1"), number("y1")], [number("x2"), number("y2")]];
    else if (part.tagName === "rect") points = [[number("x"), number("y")], [number("x") + number("width"), number("y") + number("height")]];
    else points = (part.getAttribute("d").match(/[ML][^ML]+/g) || []).map((step) => step.slice(1).trim().split(/[ ,]+/).map(Number));
    return { part, said, points, count: part.dataset.n };
  });
  const place = ({ part }, points) => {
    const set = (values) => { for (const [key, value] of Object.entries(values)) part.setAttribute(key, value.toFixed(1)); };
    const [[x, y]] = points;
    const [right, bottom] = points[points.length - 1];
    if (part.tagName === "circle") set({ cx: x, cy: y });
    else if (part.tagName === "line") set({ x1: x, y1: y, x2: right, y2: bottom });
    else if (part.tagName === "rect") set({ x, y, width: Math.max(right - x, 0), height: Math.max(bottom - y, 0) });
    else part.setAttribute("d", points.map(([a, b], at) => `${at === 0 ? "M" : "L"}${a.toFixed(1)} ${b.toFixed(1)}`).join(""));
  };
  // the height of a line at x; null beside it
  const height = (points, x) => {
    for (let at = 1; at < points.length; at++) {
      const [[x1, y1], [x2, y2]] = [points[at - 1], points[at]];
      if (x >= Math.min(x1, x2) && x <= Math.max(x1, x2)) return x2 === x1 ? y2 : y1 + (x - x1) / (x2 - x1) * (y2 - y1);
    }
    return null;
  };

  const remember = () => {
    page.searchParams.delete("zoom");
    for (const [number, view] of kept) {
      const ends = (range) => range ? range.map((value) => Number(value.toPrecision(5))).join("~") : "~";
      page.searchParams.append("zoom", `${number}~${ends(view.x)}~${ends(view.y)}`);
    }
    history.replaceState(null, "", page);
  };
  const recall = () => {
    for (const text of page.searchParams.getAll("zoom")) {
      const words = text.split("~");
      if (words.length !== 5) continue;
      const range = (low, high) => low !== "" && Number(low) < Number(high) ? [Number(low), Number(high)] : null;
      const view = { x: range(words[1], words[2]), y: range(words[3], words[4]) };
      if (view.x || view.y) kept.set(Number(words[0]), view);
    }
  };

  const prepare = (svg, number) => {
    if (svg.dataset.ready) return;
    svg.dataset.ready = "yes";
    const figure = svg.closest("figure");
    const [x, y] = [axis(svg.dataset.x), axis(svg.dataset.y)];
    const all = marks(svg);
    const box = svg.viewBox.baseVal;
    const room = {
      left: x ? Math.min(x.from, x.to) : 0, right: x ? Math.max(x.from, x.to) : box.width,
      top: y ? Math.min(y.from, y.to) : 0, bottom: y ? Math.max(y.from, y.to) : box.height,
    };
    const inRoom = ([px, py]) => px >= room.left - 1 && px <= room.right + 1 && py >= room.top - 1 && py <= room.bottom + 1;
    const data = all.filter((mark) => mark.points.length > 0 && mark.points.some(inRoom));
    data.forEach((mark) => { mark.now = mark.points; });
    let view = { x: null, y: null };

    const now = (whole, range) => {
      if (!whole) return null;
      const [low, high] = range || [whole.low, whole.high];
      return axis(`${whole.from} ${whole.to} ${low} ${high} ${whole.log ? "log" : "linear"} ${whole.unit}`);
    };
    const moved = (whole, range) => {
      if (!whole || !range) return (pixel) => pixel;
      const [first, last] = range.map(whole.at);
      return (pixel) => whole.from + (pixel - first) / (last - first) * (whole.to - whole.from);
    };
    const draw = () => {
      svg.querySelectorAll(":scope > .zoomed, :scope > .clip").forEach((part) => part.remove());
      const zoomed = view.x !== null || view.y !== null;
      svg.classList.toggle("zoomed-in", zoomed);
      const [across, up] = [moved(x, view.x), moved(y, view.y)];
      data.forEach((mark) => {
        mark.now = mark.points.map(([px, py]) => [across(px), up(py)]);
        place(mark, mark.now);
        if (zoomed) mark.part.setAttribute("clip-path", `url(#clip-${number})`); else mark.part.removeAttribute("clip-path");
      });
      if (zoomed) {
        const clip = made("clipPath", { id: `clip-${number}`, class: "clip" });
        const edge = 4;
        clip.append(made("rect", { x: room.left - edge, y: room.top - edge, width: room.right - room.left + 2 * edge, height: room.bottom - room.top + 2 * edge }));
        const grid = made("g", { class: "zoomed" });
        const [nx, ny] = [now(x, view.x), now(y, view.y)];
        if (nx) ticks(nx.low, nx.high, nx).forEach((tick) => {
          grid.append(made("line", { class: "grid new", x1: nx.at(tick), x2: nx.at(tick), y1: room.top, y2: room.bottom }));
          grid.append(made("text", { class: "tick new", x: nx.at(tick), y: room.bottom + 15, "text-anchor": "middle" }, write[nx.unit](tick)));
        });
        if (ny) ticks(ny.low, ny.high, ny).forEach((tick) => {
          grid.append(made("line", { class: "grid new", x1: room.left, x2: room.right, y1: ny.at(tick), y2: ny.at(tick) }));
          grid.append(made("text", { class: "tick new", x: room.left - 6, y: ny.at(tick) + 4, "text-anchor": "end" }, write[ny.unit](tick)));
        });
        svg.prepend(clip, grid);
      }
    };
    const zoom = (next) => {
      const held = (whole, range) => {
        if (!whole || !range) return null;
        const [low, high] = [Math.max(range[0], whole.low), Math.min(range[1], whole.high)];
        if (!(low < high) || low <= whole.low && high >= whole.high) return null;
        return [low, high];
      };
      view = { x: held(x, next.x), y: held(y, next.y) };
      if (view.x || view.y) kept.set(number, view); else kept.delete(number);
      draw();
      remember();
    };
    const nearer = (whole, range, factor, shift) => {
      if (!whole) return null;
      const current = now(whole, range);
      const span = (whole.to - whole.from) / factor;
      const middle = (whole.from + whole.to) / 2 + shift * (whole.to - whole.from);
      const ends = [current.value(middle - span / 2), current.value(middle + span / 2)];
      // shifted only as far as there is something
      if (factor === 1 && (ends[0] < whole.low * (1 - 1e-9) || ends[1] > whole.high * (1 + 1e-9))) return range;
      return ends;
    };
    const step = (factor, dx = 0, dy = 0) => zoom({ x: nearer(x, view.x, factor, dx), y: nearer(y, view.y, factor, dy) });

    // the readout
    const readout = document.createElement("div");
    readout.className = "readout";
    readout.setAttribute("role", "status");
    readout.hidden = true;
    const cursor = made("g", { class: "cursor" });
    svg.append(cursor);
    const lit = (mark) => {
      document.querySelectorAll(".lit").forEach((part) => part.classList.remove("lit"));
      if (!mark) return;
      const [colour, one] = [ink(mark.part), trial(mark.part)];
      const section = svg.closest("section") || figure;
      if (colour && one) section.querySelectorAll(`svg .${colour}.${one}`).forEach((part) => part.classList.add("lit"));
      else mark.part.classList.add("lit");
    };
    const hide = () => { readout.hidden = true; cursor.replaceChildren(); lit(null); };
    const show = ([px, py]) => {
      const distance = (mark) => {
        const { part, now: points } = mark;
        if (!(mark.said || mark.count) || part.classList.contains("dim")) return Infinity;
        const [[ax, ay]] = points;
        const [bx, by] = points[points.length - 1];
        if (part.tagName === "circle") return Math.hypot(ax - px, ay - py);
        if (part.tagName === "rect") return px >= ax && px <= bx && py >= ay && py <= by ? NEAR / 2 : Infinity;
        const at = height(points, px);
        // a dot on a line is meant before the line
        return at === null ? Infinity : Math.abs(at - py) + NEAR / 3;
      };
      const near = data.map((mark) => [distance(mark), mark]).filter(([far]) => far <= NEAR).sort((a, b) => a[0] - b[0])[0];
      const lines = [];
      const [nx, ny] = [now(x, view.x), now(y, view.y)];
      const inside = inRoom([px, py]);
      if (near && near[1].said) lines.push(near[1].said);
      const heat = near && near[1].count ? near[1] : null;
      if (heat) lines.push(`${heat.count} operations`);
      cursor.replaceChildren();
      if (inside && nx && nx.unit !== "place") {
        lines.push(write[nx.unit](nx.value(px)));
        cursor.append(made("line", { class: "one", x1: px, x2: px, y1: room.top, y2: room.bottom }));
      }
      if (heat && ny) lines.push([heat.now[1][1], heat.now[0][1]].map((at) => write[ny.unit](ny.value(at))).join(" to "));
      if (inside && ny) {
        const curves = data.filter(({ part, said }) => said && part.tagName === "path" && !part.classList.contains("dim"));
        const values = curves.map((mark) => [height(mark.now, px), mark]).filter(([at]) => at !== null).sort((a, b) => a[0] - b[0]);
        values.slice(0, LINES_MAX).forEach(([at, mark]) => {
          lines.push(`${mark.said}: ${write[ny.unit](ny.value(at))}`);
          cursor.append(made("circle", { class: `ratio ${ink(mark.part) || ""}`, cx: px, cy: at, r: 2.5 }));
        });
        if (values.length > LINES_MAX) lines.push(`and ${values.length - LINES_MAX} more`);
      }
      if (lines.length === 0) { hide(); return; }
      lit(near ? near[1] : null);
      readout.replaceChildren(...lines.map((line) => { const part = document.createElement("div"); part.textContent = line; return part; }));
      readout.hidden = false;
      const [frame, drawn] = [figure.getBoundingClientRect(), svg.getBoundingClientRect()];
      const size = drawn.width / box.width;
      const [left, top] = [drawn.left - frame.left + px * size, drawn.top - frame.top + py * size];
      const right = left > frame.width / 2;
      readout.style.left = right ? "auto" : `${left + 12}px`;
      readout.style.right = right ? `${frame.width - left + 12}px` : "auto";
      readout.style.top = `${Math.max(top - 10, 0)}px`;
    };
    const point = (event) => {
      const { x: px, y: py } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return [px, py];
    };

    let drag = null;
    const held = ([px, py]) => [Math.min(Math.max(px, room.left), room.right), Math.min(Math.max(py, room.top), room.bottom)];
    svg.addEventListener("pointerdown", (event) => {
      // a finger scrolls the page
      if (event.button !== 0 || event.pointerType === "touch" || !(x || y)) return;
      // once it is captured, the drawing itself is the target of what follows
      drag = { from: held(point(event)), frame: null, target: event.target };
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (drag === null) { show(point(event)); return; }
      const [[ax, ay], [bx, by]] = [drag.from, held(point(event))];
      if (Math.hypot(ax - bx, ay - by) < DRAG_MIN && drag.frame === null) return;
      hide();
      if (drag.frame === null) { drag.frame = made("rect", { class: "window" }); svg.append(drag.frame); }
      // along an axis when the drawing has only one, or when the hand hardly moved along the other
      const flat = !y || Math.abs(ay - by) < DRAG_MIN;
      const steep = !x || Math.abs(ax - bx) < DRAG_MIN;
      drag.x = steep ? null : [Math.min(ax, bx), Math.max(ax, bx)];
      drag.y = flat ? null : [Math.min(ay, by), Math.max(ay, by)];
      const [[l, r], [t, b]] = [drag.x || [room.left, room.right], drag.y || [room.top, room.bottom]];
      for (const [key, value] of Object.entries({ x: l, y: t, width: r - l, height: b - t })) drag.frame.setAttribute(key, value);
    });
    const release = (event) => {
      const done = drag;
      drag = null;
      if (done === null) return;
      if (done.frame !== null) {
        done.frame.remove();
        const range = (whole, pixels, old) => pixels ? pixels.map(now(whole, old).value).sort((a, b) => a - b) : old;
        if (event.type === "pointerup" && (done.x || done.y)) zoom({ x: range(x, done.x, view.x), y: range(y, done.y, view.y) });
        return;
      }
      // a click on what is drawn chooses its stack, in every figure and table
      const colour = ink(done.target);
      const choice = colour && document.querySelector(`.legend button[data-ink="${colour}"]`);
      if (choice && event.type === "pointerup") choice.click();
    };
    svg.addEventListener("pointerup", release);
    svg.addEventListener("pointercancel", release);
    svg.addEventListener("pointerleave", () => { if (drag === null) hide(); });
    svg.addEventListener("dblclick", () => zoom({ x: null, y: null }));
    if (x || y) {
      svg.setAttribute("tabindex", "0");
      svg.setAttribute("aria-keyshortcuts", "+ - 0 ArrowLeft ArrowRight");
      let at = [(room.left + room.right) / 2, (room.top + room.bottom) / 2];
      svg.addEventListener("blur", hide);
      svg.addEventListener("keydown", (event) => {
        const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key] || 0;
        const rise = { ArrowDown: y && y.to < y.from ? -1 : 1, ArrowUp: y && y.to < y.from ? 1 : -1 }[event.key] || 0;
        if (event.key === "+" || event.key === "=") step(STEP);
        else if (event.key === "-") step(1 / STEP);
        else if (event.key === "0") zoom({ x: null, y: null });
        else if (event.key === "Escape") hide();
        else if (event.shiftKey && (side || rise)) step(1, side * 0.2, rise * 0.2);
        else if (side) { at = held([at[0] + side * (room.right - room.left) / 50, at[1]]); show(at); }
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
    }

    // tools
    const tools = document.createElement("div");
    tools.className = "tools";
    if (x || y) tools.append(button("+", "nearer", () => step(STEP)), button("\u2212", "farther", () => step(1 / STEP)), button("1:1", "the whole figure", () => zoom({ x: null, y: null })));
    const run = document.querySelector("nav.web").dataset.run;
    const file = run && figure.dataset.file;
    tools.append(...buttons(svg, !file));
    if (file) {
      const link = document.createElement("a");
      link.href = `/runs/${encodeURIComponent(run)}/data/${figure.dataset.file}`;
      link.download = "";
      link.textContent = "Data";
      link.title = "take the data as CSV";
      tools.append(link);
    }
    figure.classList.add("handled");
    figure.querySelectorAll(":scope > .tools, :scope > .readout").forEach((part) => part.remove());
    figure.append(tools, readout);
    if (kept.has(number)) { view = kept.get(number); draw(); }
  };

  const all = () => document.querySelectorAll("main figure svg").forEach(prepare);
  recall();
  all();
  // a run in progress is drawn anew
  document.addEventListener("drawn", all);

  // which stack is chosen stands in the address
  const stacks = [...document.querySelectorAll(".legend button")];
  const wanted = page.searchParams.get("pick");
  if (wanted !== null) { const found = stacks.find((one) => one.textContent.trim() === wanted); if (found) found.click(); }
  stacks.forEach((one) => one.addEventListener("click", () => {
    if (one.getAttribute("aria-pressed") === "true") page.searchParams.set("pick", one.textContent.trim()); else page.searchParams.delete("pick");
    history.replaceState(null, "", page);
  }));
})();
