// Behaviour of all pages: relative times, confirmations, focus, copy buttons, filters.
(() => {
  "use strict";

  const TIME_UNITS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [60 * 86400, "d", 86400]];

  function relativeTime(seconds) {
    const distance = Math.abs(seconds);
    if (distance < 5) return "just now";
    let text;
    const unit = TIME_UNITS.find(([limit]) => distance < limit);
    if (unit) text = `${Math.floor(distance / unit[2])} ${unit[1]}`;
    else {
      const months = Math.round(distance / (30.44 * 86400));
      text = months < 24 ? `${months} months` : `${Math.floor(months / 12)} years`;
    }
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  }

  function updateTimes() {
    for (const time of document.querySelectorAll("time.ago")) {
      const instant = new Date(time.dateTime);
      time.textContent = relativeTime((Date.now() - instant) / 1000);
      time.title = instant.toLocaleString();
    }
  }

  // Makes scrollable boxes reachable by keyboard.
  function updateTabStops() {
    for (const box of document.querySelectorAll("#studio :is(pre, .code, .frame, .tabs)"))
      if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
  }

  // Focuses the invalid field of a refused form, and links it to the message.
  function focusInvalidField() {
    const error = document.getElementById("form-error");
    const field = error?.closest("form").elements.namedItem(error.dataset.param ?? "");
    if (!field?.focus) return;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", error.id);
    field.focus();
  }

  // After a change, the keyboard focus is in the page, not at the start of the menu.
  function focusPageAfterChange() {
    const page = document.getElementById("page-main");
    const hasFocus = document.activeElement && document.activeElement !== document.body;
    if (hasFocus || !page?.querySelector(":scope > [role=status]")?.textContent.trim()) return;
    page.focus({ preventScroll: true });
  }

  // Asks for confirmation; without scripts the form is sent directly.
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // Shows a truncated text in full on hover.
  document.addEventListener("mouseover", ({ target }) => {
    const element = target.closest(".clip, .live-text");
    if (!element || (element.title && !("isTruncated" in element.dataset))) return;
    element.dataset.isTruncated = "";
    element.title = element.scrollWidth > element.clientWidth + 1 ? element.textContent.replace(/\s+/g, " ").trim() : "";
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-back]") && history.length > 1) {
      event.preventDefault();
      history.back();
    }
    const button = event.target.closest("[data-copy]");
    if (button) copyText(button).then((isCopied) => {
      const label = button.dataset.label ??= button.textContent;
      button.textContent = isCopied ? "Copied" : "Selected: press Ctrl+C";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  });

  // Over plain HTTP, browsers allow copying only the selection.
  async function copyText({ dataset }) {
    const source = document.querySelector(dataset.copyOf);
    try {
      await navigator.clipboard.writeText(dataset.copy || source.textContent);
      return true;
    } catch {
      if (source) getSelection().selectAllChildren(source);
      return source !== null && document.execCommand("copy");
    }
  }

  // The shell reads the system's colour scheme only when the page loads.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
    if (["light", "dark"].includes(JSON.parse(localStorage.getItem("adminTheme")))) return;
    document.documentElement.classList.toggle("dark", matches);
  });

  document.addEventListener("change", ({ target }) => {
    if (!target.matches("[data-choose-all]")) return;
    for (const box of target.closest("table").querySelectorAll("td.choose input")) box.checked = target.checked;
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-auto-submit] select, form[data-auto-submit] input[type=checkbox]"))
      event.target.form.requestSubmit();
  });

  // Functions for the scripts of pages.
  window.studio = {
    relativeTime,
    updateTimes,
    // Replaces an element by its updated version. The focus stays on the same link or
    // button, or moves to the element if that is gone.
    replaceElement(current, updated) {
      const focused = current.contains(document.activeElement) ? document.activeElement : null;
      current.replaceWith(updated);
      if (!focused) return;
      const isSame = (it) => it.getAttribute("href") === focused.getAttribute("href")
        && (it.href || it.textContent === focused.textContent);
      const same = [...updated.querySelectorAll(focused.tagName)].find(isSame);
      if (!same) updated.tabIndex = -1;
      (same ?? updated).focus({ preventScroll: true });
    },
    // Sends and returns JSON; throws an error with the server's message.
    async call(address, { method = "GET", body, signal } = {}) {
      const headers = { Accept: "application/json" };
      if (body !== undefined) headers["Content-Type"] = "application/json";
      if (method !== "GET")
        headers["X-CSRFToken"] = document.getElementById("studio").dataset.csrf;
      const response = await fetch(address, {
        method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
      });
      const data = response.status === 204 ? null : await response.json();
      if (!response.ok) throw Object.assign(new Error(data.error.message), { status: response.status, error: data.error });
      return data;
    },
  };

  document.addEventListener("DOMContentLoaded", () => {
    updateTimes();
    setInterval(updateTimes, 5000);
    updateTabStops();
    focusInvalidField();
    focusPageAfterChange();
    window.addEventListener("resize", updateTabStops);
    document.addEventListener("toggle", updateTabStops, true);
  });
})();
