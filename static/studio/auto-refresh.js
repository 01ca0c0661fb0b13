// Pages of what is under way: asked for anew, and the parts that changed are put in.
// A part is `data-refresh`, its name, and `data-revision`, what would change it; while any
// has `data-is-open` there is more to come.
(() => {
  "use strict";

  const LEAST = 2000; // between two looks, in milliseconds
  const MOST = 15000; // where nothing changes
  const told = document.getElementById("refresh-status");
  if (!told) return; // There is nothing that could change.
  const parts = (within) => [...within.querySelectorAll("[data-refresh]")];
  const isOpen = () => document.querySelector("[data-refresh][data-is-open]") !== null;

  // What was unfolded stays so, and who was in a part stays in it.
  function put(here, fresh) {
    const folds = fresh.querySelectorAll("details");
    here.querySelectorAll("details").forEach((each, at) => { if (folds[at]) folds[at].open = each.open; });
    const wasIn = here.contains(document.activeElement);
    here.replaceWith(fresh);
    if (wasIn) (fresh.querySelector("button, summary, a") ?? document.getElementById("page-main"))?.focus();
  }

  let pause = LEAST;
  let timer = 0;
  let isLooking = false;

  // Tells whether anything had changed.
  async function look() {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const news = new Map(parts(page).map((part) => [part.dataset.refresh, part]));
    const said = [];
    let isChanged = false;
    for (const here of parts(document)) {
      const fresh = news.get(here.dataset.refresh);
      if (!fresh) delete here.dataset.isOpen;
      else if (fresh.dataset.revision !== here.dataset.revision) {
        put(here, fresh);
        isChanged = true;
        if (fresh.dataset.announcement && fresh.dataset.announcement !== here.dataset.announcement) said.push(fresh.dataset.announcement);
      }
    }
    if (said.length) told.textContent = said.join(", ");
    window.studio.refresh();
    return isChanged;
  }

  // Less and less often while nothing changes, and while the server is away; not at all
  // while nobody sees the page.
  async function again() {
    if (isLooking || document.hidden || !isOpen()) return;
    clearTimeout(timer);
    isLooking = true;
    try {
      pause = await look() ? LEAST : Math.min(1.5 * pause, MOST);
    } catch {
      pause = Math.min(3 * pause, MOST);
    }
    isLooking = false;
    wait();
  }

  function wait() {
    told.dataset.pause = pause;
    if (isOpen()) timer = setTimeout(again, pause);
  }

  // Who comes back wants to see how it is now.
  function atOnce() {
    if (document.hidden) return;
    pause = LEAST;
    again();
  }

  window.addEventListener("focus", atOnce);
  document.addEventListener("visibilitychange", atOnce);
  wait();
})();
