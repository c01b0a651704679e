// Keys, and what a run in progress sends. Pages are whole without it.
(() => {
  const rows = () => [...document.querySelectorAll("tr[data-row]")];
  const help = document.querySelector("dialog.help");
  const toggle = () => { if (help.open) help.close(); else help.showModal(); };
  let at = -1;
  const go = (step) => {
    const all = rows();
    if (all.length === 0) return;
    at = Math.min(Math.max(at + step, 0), all.length - 1);
    all.forEach((row, number) => row.classList.toggle("here", number === at));
    all[at].scrollIntoView({ block: "nearest" });
    all[at].querySelector("a").focus({ preventScroll: true });
  };
  document.querySelector("button.help").addEventListener("click", toggle);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input")) return;
    if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "?") toggle();
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
    source.addEventListener("progress", (event) => { live.innerHTML = event.data; });
    source.addEventListener("end", () => { source.close(); live.dataset.ended = "yes"; });
  }
})();
