// What every page of the studio does: fresh times, questions before what cannot be undone.
(() => {
  "use strict";

  const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [60 * 86400, "d", 86400]];

  function spoken(seconds) {
    const distance = Math.abs(seconds);
    if (distance < 5) return "just now";
    let text;
    const step = STEPS.find(([below]) => distance < below);
    if (step) text = `${Math.floor(distance / step[2])} ${step[1]}`;
    else {
      const months = Math.round(distance / (30.44 * 86400));
      text = months < 24 ? `${months} months` : `${Math.floor(months / 12)} years`;
    }
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  }

  function refresh() {
    for (const time of document.querySelectorAll("time.ago")) {
      const at = new Date(time.dateTime);
      time.textContent = spoken((Date.now() - at) / 1000);
      time.title = at.toLocaleString();
    }
  }

  // What scrolls within the page is scrolled by keys, too.
  function reach() {
    for (const box of document.querySelectorAll("#studio :is(pre, .code, .frame, .tabs)"))
      if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
  }

  // In a form that was refused the field that is wrong has the focus, and is told why.
  function mend() {
    const refused = document.getElementById("form-error");
    const field = refused?.closest("form").elements.namedItem(refused.dataset.param ?? "");
    if (!field?.focus) return;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", refused.id);
    field.focus();
  }

  // After a deed keys go on with the page, not with the menu again.
  function goOn() {
    const page = document.getElementById("page-main");
    const isAnywhere = document.activeElement && document.activeElement !== document.body;
    if (isAnywhere || !page?.querySelector(":scope > [role=status]")?.textContent.trim()) return;
    page.focus({ preventScroll: true });
  }

  // Asks first; without script the form is simply sent.
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // What is cut off is told on hover; the page it leads to has it, too.
  document.addEventListener("mouseover", ({ target }) => {
    const cut = target.closest(".clip, .live-text");
    if (!cut || (cut.title && !("isCut" in cut.dataset))) return;
    cut.dataset.isCut = "";
    cut.title = cut.scrollWidth > cut.clientWidth + 1 ? cut.textContent.replace(/\s+/g, " ").trim() : "";
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-back]") && history.length > 1) {
      event.preventDefault();
      history.back();
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) taken(copy).then((isTaken) => {
      const label = copy.dataset.label ??= copy.textContent;
      copy.textContent = isTaken ? "Copied" : "Marked: copy it by keys";
      setTimeout(() => { copy.textContent = label; }, 1500);
    });
  });

  // Over plain HTTP a browser has no clipboard but what is marked.
  async function taken({ dataset }) {
    const source = document.querySelector(dataset.copyOf);
    try {
      await navigator.clipboard.writeText(dataset.copy || source.textContent);
      return true;
    } catch {
      if (source) getSelection().selectAllChildren(source);
      return source !== null && document.execCommand("copy");
    }
  }

  // The shell takes the system's light as it is when a page is loaded, and no later.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
    if (["light", "dark"].includes(JSON.parse(localStorage.getItem("adminTheme")))) return;
    document.documentElement.classList.toggle("dark", matches);
  });

  // A filter that is chosen is applied.
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-auto-submit] select, form[data-auto-submit] input[type=checkbox]"))
      event.target.form.requestSubmit();
  });

  // For the scripts of pages: JSON both ways, and errors with the server's own words.
  window.studio = {
    spoken,
    refresh,
    // Puts something in the place of what it is made anew of. What had the focus there
    // keeps it; where that is gone, the whole has it.
    renew(old, fresh) {
      const held = old.contains(document.activeElement) ? document.activeElement : null;
      old.replaceWith(fresh);
      if (!held) return;
      const isSame = (it) => it.getAttribute("href") === held.getAttribute("href")
        && (it.href || it.textContent === held.textContent);
      const same = [...fresh.querySelectorAll(held.tagName)].find(isSame);
      if (!same) fresh.tabIndex = -1;
      (same ?? fresh).focus({ preventScroll: true });
    },
    async call(address, { method = "GET", body, signal } = {}) {
      const headers = { Accept: "application/json" };
      if (body !== undefined) headers["Content-Type"] = "application/json";
      if (method !== "GET")
        headers["X-CSRFToken"] = document.getElementById("studio").dataset.csrf;
      const answer = await fetch(address, {
        method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
      });
      const data = answer.status === 204 ? null : await answer.json();
      if (!answer.ok) throw Object.assign(new Error(data.error.message), { status: answer.status, error: data.error });
      return data;
    },
  };

  document.addEventListener("DOMContentLoaded", () => {
    refresh();
    setInterval(refresh, 5000);
    reach();
    mend();
    goOn();
    window.addEventListener("resize", reach);
    document.addEventListener("toggle", reach, true);
  });
})();
