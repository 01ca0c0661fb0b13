// Turns each YAML text area into an editor: highlighting, completion, problems at their lines.
(() => {
  "use strict";

  const CHECK_DELAY_MS = 500;
  let schema; // a promise of the JSON schema, which completion awaits

  function theme() {
    const dark = document.documentElement.classList.contains("dark");
    return dark ? "ace/theme/github_dark" : "ace/theme/github_light_default";
  }

  // Paths are written as in config/editing/document.py: "~1" is a slash within a name.
  function parseStep(text) {
    return /^\d+$/.test(text) ? Number(text) : text.replaceAll("~1", "/").replaceAll("~0", "~");
  }

  function createEditor(box) {
    const area = box.querySelector("textarea");
    const frame = box.querySelector(".yaml-frame");
    const list = box.querySelector(".yaml-problems");
    const form = area.form;
    const isOfFile = box.dataset.at !== "" && box.dataset.check === "/admin/config/check";
    const base = box.dataset.at ? box.dataset.at.split("/").map(parseStep) : [];

    // The final height is set at once, so the content below does not move.
    frame.hidden = false;
    area.hidden = true;
    const editor = ace.edit(frame, {
      mode: "ace/mode/yaml", theme: theme(), value: area.value, useWorker: false, tabSize: 2, useSoftTabs: true,
      showPrintMargin: false, fontSize: 13, readOnly: area.readOnly, highlightActiveLine: !area.readOnly,
      enableBasicAutocompletion: true, enableLiveAutocompletion: !area.readOnly, minLines: 6, maxLines: Math.max(12, Number(area.rows) || 24),
      scrollPastEnd: 0, wrap: false, useResizeObserver: true,
    });
    function setIndentRule() {
      editor.session.getMode().getNextLineIndent = (_, line, tab) => {
        const row = editor.getCursorPosition().row - 1; // The new line exists already.
        const { steps } = window.studioYaml.locate(editor.session.getDocument().getAllLines(), row, line.length);
        return window.studioYaml.indentAfter(line, steps === null, tab);
      };
    }
    setIndentRule();
    editor.session.on("changeMode", setIndentRule);
    editor.renderer.updateFull(true);
    editor.textInput.getElement().setAttribute("aria-label", "YAML");
    editor.setOption("enableKeyboardAccessibility", true);
    // Alt+L folds at the cursor, and the problems are listed below, so the gutter needs no tab stop.
    editor.renderer.$gutter.tabIndex = -1;
    editor.completers = [{
      identifierRegexps: [/[\w\-"']/],
      async getCompletions(_, session, position, prefix, callback) {
        const loaded = await schema;
        if (!loaded) return callback(null, []);
        callback(null, window.studioYaml.completions(loaded, base, session.getDocument().getAllLines(), position.row, position.column));
      },
      getDocTooltip(item) {
        if (!item.docText || item.docHTML) return;
        const text = document.createElement("div");
        text.textContent = item.docText;
        text.className = "yaml-doc";
        item.docHTML = text.outerHTML;
      },
    }];
    // Ace filters its completions a moment after each key. A completion chosen before that
    // would replace too little of the typed text: "ena" would become "eenabled".
    const completer = ace.require("ace/autocomplete").Autocomplete.for(editor);
    const { insertMatch } = completer;
    completer.insertMatch = (...chosen) => {
      if (completer.completions) completer.updateCompletions(true);
      return completer.completions ? insertMatch.apply(completer, chosen) : false;
    };
    box.querySelector(".yaml-hints").hidden = area.readOnly;
    new MutationObserver(() => editor.setTheme(theme())).observe(document.documentElement, { attributeFilter: ["class"] });

    const saved = area.dataset.saved ?? area.value;
    let isSending = false;
    const isChanged = () => editor.getValue() !== saved;
    const isRefused = document.querySelector(".notice[role=alert]") !== null;

    form?.addEventListener("submit", () => { area.value = editor.getValue(); isSending = true; });
    window.addEventListener("beforeunload", (event) => {
      if (!isSending && (isChanged() || (isRefused && !area.readOnly))) event.preventDefault();
    });
    window.addEventListener("pageshow", () => { isSending = false; });
    if (form && !area.readOnly) {
      const save = () => form.requestSubmit();
      editor.commands.addCommand({ name: "save", bindKey: { win: "Ctrl-S", mac: "Command-S" }, exec: save });
      document.addEventListener("keydown", (event) => {
        if ((event.ctrlKey || event.metaKey) && event.key === "s" && !event.defaultPrevented) { event.preventDefault(); save(); }
      });
    }

    function goToLine(line, column = 1) {
      editor.gotoLine(line, column - 1, true);
      editor.scrollToLine(line - 1, true, true);
      editor.focus();
    }

    function showProblems(problems) {
      editor.session.setAnnotations(problems.filter((it) => it.line).map((it) => ({
        row: it.line - 1, column: (it.column ?? 1) - 1, text: it.message, type: "error",
      })));
      list.replaceChildren(...problems.map((problem) => {
        const item = document.createElement("li");
        if (problem.line) {
          const link = document.createElement("button");
          link.type = "button";
          link.textContent = `line ${problem.line}`;
          link.addEventListener("click", () => goToLine(problem.line, problem.column ?? 1));
          item.append(link, " ");
        }
        item.append(problem.message);
        if (!problem.line && isOfFile) {
          const editorLink = document.createElement("a");
          editorLink.href = "/admin/config/edit";
          editorLink.target = "_blank";
          editorLink.textContent = "Edit the whole file";
          item.append(" ", editorLink);
        }
        return item;
      }));
      list.hidden = problems.length === 0;
    }

    // Problems in the server's response to a refused form.
    const problemLinks = [...document.querySelectorAll(".notice [data-line]")];
    for (const link of problemLinks) link.addEventListener("click", (event) => { event.preventDefault(); goToLine(Number(link.dataset.line)); });
    if (problemLinks.length) {
      editor.session.setAnnotations(problemLinks.map((link) => ({ row: Number(link.dataset.line) - 1, column: 0, text: link.parentElement.textContent.trim(), type: "error" })));
      goToLine(Number(problemLinks[0].dataset.line));
    }

    let timer, pendingCheck;
    async function check() {
      pendingCheck?.abort();
      pendingCheck = new AbortController();
      try {
        const { problems } = await window.studio.call(box.dataset.check, {
          method: "POST", body: { yaml: editor.getValue(), at: box.dataset.at }, signal: pendingCheck.signal,
        });
        showProblems(problems);
      } catch (error) {
        if (error.name !== "AbortError") showProblems([{ message: error.message }]);
      }
    }
    editor.session.on("change", () => {
      area.value = editor.getValue();
      if (!box.dataset.check) return;
      clearTimeout(timer);
      timer = setTimeout(check, CHECK_DELAY_MS);
    });
    box.editor = editor;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const boxes = [...document.querySelectorAll("[data-yaml-editor]")];
    if (!boxes.length || !window.ace) return;
    schema = window.studio.call(boxes[0].dataset.schema).catch(() => null);
    boxes.forEach(createEditor);
  });
})();
