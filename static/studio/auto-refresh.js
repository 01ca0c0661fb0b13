// Reloads pages about running work, and replaces the parts that changed.
// A part has `data-refresh`, its name, and `data-revision`, which differs after a change.
// Polling continues while any part has `data-is-open`.
(() => {
  "use strict";

  const MIN_INTERVAL_MS = 2000;
  const MAX_INTERVAL_MS = 15000;
  const status = document.getElementById("refresh-status");
  if (!status) return;
  const parts = (root) => [...root.querySelectorAll("[data-refresh]")];
  const isOpen = () => document.querySelector("[data-refresh][data-is-open]") !== null;

  // Replaces a part; open details stay open, and the focus stays in the part.
  function replacePart(current, updated) {
    const details = updated.querySelectorAll("details");
    current.querySelectorAll("details").forEach((each, index) => { if (details[index]) details[index].open = each.open; });
    const hadFocus = current.contains(document.activeElement);
    current.replaceWith(updated);
    if (hadFocus) (updated.querySelector("button, summary, a") ?? document.getElementById("page-main"))?.focus();
  }

  let interval = MIN_INTERVAL_MS;
  let timer = 0;
  let isFetching = false;

  // Returns whether anything changed.
  async function update() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(response.statusText);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const updatedParts = new Map(parts(page).map((part) => [part.dataset.refresh, part]));
    const announcements = [];
    let hasChanged = false;
    for (const current of parts(document)) {
      const updated = updatedParts.get(current.dataset.refresh);
      if (!updated) delete current.dataset.isOpen;
      else if (updated.dataset.revision !== current.dataset.revision) {
        replacePart(current, updated);
        hasChanged = true;
        const { announcement } = updated.dataset;
        if (announcement && announcement !== current.dataset.announcement) announcements.push(announcement);
      }
    }
    if (announcements.length) status.textContent = announcements.join(", ");
    window.studio.updateTimes();
    return hasChanged;
  }

  // Slows down while nothing changes or the server is unreachable; pauses while the page
  // is hidden.
  async function poll() {
    if (isFetching || document.hidden || !isOpen()) return;
    clearTimeout(timer);
    isFetching = true;
    try {
      interval = await update() ? MIN_INTERVAL_MS : Math.min(1.5 * interval, MAX_INTERVAL_MS);
    } catch {
      interval = Math.min(3 * interval, MAX_INTERVAL_MS);
    }
    isFetching = false;
    schedulePoll();
  }

  function schedulePoll() {
    status.dataset.interval = interval;
    if (isOpen()) timer = setTimeout(poll, interval);
  }

  function pollNow() {
    if (document.hidden) return;
    interval = MIN_INTERVAL_MS;
    poll();
  }

  window.addEventListener("focus", pollNow);
  document.addEventListener("visibilitychange", pollNow);
  schedulePoll();
})();
