// Keys, and what a run in progress sends. Pages are whole without it.
(() => {
  const rows = () => [...document.querySelectorAll("tr[data-row]")];
  const help = document.querySelector("dialog.help");
  const toggle = () => { if (help.open) help.close(); else help.showModal(); };
  let at = -1;
  // on pages without a list, section by section
  const sections = (step) => {
    const all = [...document.querySelectorAll("main section")];
    const tops = all.map((part) => part.getBoundingClientRect().top);
    const next = step > 0 ? tops.findIndex((top) => top > 20) : tops.findLastIndex((top) => top < 0);
    if (next >= 0) all[next].scrollIntoView();
  };
  const follow = (selector) => {
    const link = document.querySelector(selector);
    if (link !== null) link.click();
  };
  const go = (step) => {
    const all = rows();
    if (all.length === 0) { sections(step); return; }
    at = Math.min(Math.max(at + step, 0), all.length - 1);
    all.forEach((row, number) => row.classList.toggle("here", number === at));
    all[at].scrollIntoView({ block: "nearest" });
    all[at].querySelector("a").focus({ preventScroll: true });
  };
  document.querySelector("button.help").addEventListener("click", toggle);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=radio])")) return;
    if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "?") toggle();
    else if (event.key === "r") location.assign("/");
    else if (event.key === "t") location.assign("/trend");
    else if (event.key === "c") location.assign("/compare");
    else if (event.key === "n") follow("a[rel=next]");
    else if (event.key === "p") follow("a[rel=prev]");
    else if ((event.key === "a" || event.key === "b") && at >= 0) {
      const mark = rows()[at].querySelector(`input[name=${event.key}]`);
      if (mark !== null) mark.checked = true;
    }
    else if (event.key === "/") {
      const field = document.querySelector(".filter input");
      if (field === null) { location.assign("/"); return; }
      event.preventDefault();
      field.focus();
    }
  });
  const live = document.getElementById("live");
  if (live !== null) {
    const source = new EventSource(live.dataset.events);
    // the server escapes what is of users in it
    source.addEventListener("progress", (event) => {
      live.innerHTML = event.data;
      document.dispatchEvent(new Event("drawn"));
    });
    source.addEventListener("end", () => { source.close(); live.dataset.ended = "yes"; });
  }
})();
