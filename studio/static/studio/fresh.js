// Pages of what is under way: asked for anew, and the parts that changed are put in.
// A part is `data-fresh`, its name, and `data-revision`, what would change it; while any
// has `data-is-open` there is more to come.
(() => {
  "use strict";

  const PAUSE = 2000;
  const told = document.getElementById("fresh-told");
  const parts = (within) => [...within.querySelectorAll("[data-fresh]")];
  const isOpen = () => document.querySelector("[data-fresh][data-is-open]") !== null;

  // What was unfolded stays so, and who was in a part stays in it.
  function put(here, fresh) {
    const folds = fresh.querySelectorAll("details");
    here.querySelectorAll("details").forEach((each, at) => { if (folds[at]) folds[at].open = each.open; });
    const wasIn = here.contains(document.activeElement);
    here.replaceWith(fresh);
    if (wasIn) (fresh.querySelector("button, summary, a") ?? document.getElementById("page-itself"))?.focus();
  }

  async function look() {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const news = new Map(parts(page).map((part) => [part.dataset.fresh, part]));
    const said = [];
    for (const here of parts(document)) {
      const fresh = news.get(here.dataset.fresh);
      if (!fresh) delete here.dataset.isOpen;
      else if (fresh.dataset.revision !== here.dataset.revision) {
        put(here, fresh);
        if (fresh.dataset.told && fresh.dataset.told !== here.dataset.told) said.push(fresh.dataset.told);
      }
    }
    if (said.length) told.textContent = said.join(", ");
    window.studio.refresh();
  }

  // The server may be away for a moment: then it is asked again, a little later.
  async function again() {
    let pause = PAUSE;
    try {
      if (!document.hidden) await look();
    } catch {
      pause = 3 * PAUSE;
    }
    if (isOpen()) setTimeout(again, pause);
  }

  if (isOpen()) setTimeout(again, PAUSE);
})();
