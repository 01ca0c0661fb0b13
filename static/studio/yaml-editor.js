// Makes an editor of each text area of YAML: colours, completion, problems at their lines.
(() => {
  "use strict";

  const CHECK_AFTER_MS = 500;
  // A promise: who types before it is there is offered what fits once it is.
  let schema;

  function theme() {
    const dark = document.documentElement.classList.contains("dark");
    return dark ? "ace/theme/github_dark" : "ace/theme/github_light_default";
  }

  // A place is written as config/editing/round_trip/key_paths.py does: "~1" is a slash within a name.
  function step(text) {
    return /^\d+$/.test(text) ? Number(text) : text.replaceAll("~1", "/").replaceAll("~0", "~");
  }

  function begin(box) {
    const area = box.querySelector("textarea");
    const frame = box.querySelector(".yaml-frame");
    const list = box.querySelector(".yaml-problems");
    const form = area.form;
    const isOfFile = box.dataset.at !== "" && box.dataset.check === "/admin/config/check";
    const base = box.dataset.at ? box.dataset.at.split("/").map(step) : [];

    // At once as high as it will be: what is below does not move, and it can be scrolled to.
    frame.hidden = false;
    area.hidden = true;
    const editor = ace.edit(frame, {
      mode: "ace/mode/yaml", theme: theme(), value: area.value, useWorker: false, tabSize: 2, useSoftTabs: true,
      showPrintMargin: false, fontSize: 13, readOnly: area.readOnly, highlightActiveLine: !area.readOnly,
      enableBasicAutocompletion: true, enableLiveAutocompletion: !area.readOnly, minLines: 6, maxLines: Math.max(12, Number(area.rows) || 24),
      scrollPastEnd: 0, wrap: false, useResizeObserver: true,
    });
    function indent() {
      editor.session.getMode().getNextLineIndent = (_, line, tab) => {
        const row = editor.getCursorPosition().row - 1; // The new line is there already.
        const { steps } = window.studioYaml.where(editor.session.getDocument().getAllLines(), row, line.length);
        return window.studioYaml.indentAfter(line, steps === null, tab);
      };
    }
    indent();
    editor.session.on("changeMode", indent);
    editor.renderer.updateFull(true);
    editor.textInput.getElement().setAttribute("aria-label", "YAML");
    editor.setOption("enableKeyboardAccessibility", true);
    // Keys fold where the cursor is (Alt+L), and problems are listed below.
    editor.renderer.$gutter.tabIndex = -1;
    editor.completers = [{
      identifierRegexps: [/[\w\-"']/],
      async getCompletions(_, session, position, prefix, tell) {
        const known = await schema;
        if (!known) return tell(null, []);
        tell(null, window.studioYaml.completions(known, base, session.getDocument().getAllLines(), position.row, position.column));
      },
      getDocTooltip(item) {
        if (!item.docText || item.docHTML) return;
        const text = document.createElement("div");
        text.textContent = item.docText;
        text.className = "yaml-doc";
        item.docHTML = text.outerHTML;
      },
    }];
    // Ace sifts what it offers a moment after each key. Chosen before that, it would
    // replace less than was typed: "ena" would become "eenabled".
    const completer = ace.require("ace/autocomplete").Autocomplete.for(editor);
    const { insertMatch } = completer;
    completer.insertMatch = (...chosen) => {
      if (completer.completions) completer.updateCompletions(true);
      return completer.completions ? insertMatch.apply(completer, chosen) : false;
    };
    box.querySelector(".yaml-hints").hidden = area.readOnly;
    new MutationObserver(() => editor.setTheme(theme())).observe(document.documentElement, { attributeFilter: ["class"] });

    const saved = area.dataset.saved ?? area.value;
    let sending = false;
    const isChanged = () => editor.getValue() !== saved;
    const isRefused = document.querySelector(".notice[role=alert]") !== null;

    form?.addEventListener("submit", () => { area.value = editor.getValue(); sending = true; });
    window.addEventListener("beforeunload", (event) => {
      if (!sending && (isChanged() || (isRefused && !area.readOnly))) event.preventDefault();
    });
    window.addEventListener("pageshow", () => { sending = false; });
    if (form && !area.readOnly) {
      const save = () => form.requestSubmit();
      editor.commands.addCommand({ name: "save", bindKey: { win: "Ctrl-S", mac: "Command-S" }, exec: save });
      document.addEventListener("keydown", (event) => {
        if ((event.ctrlKey || event.metaKey) && event.key === "s" && !event.defaultPrevented) { event.preventDefault(); save(); }
      });
    }

    function go(line, column = 1) {
      editor.gotoLine(line, column - 1, true);
      editor.scrollToLine(line - 1, true, true);
      editor.focus();
    }

    function show(problems) {
      editor.session.setAnnotations(problems.filter((it) => it.line).map((it) => ({
        row: it.line - 1, column: (it.column ?? 1) - 1, text: it.message, type: "error",
      })));
      list.replaceChildren(...problems.map((problem) => {
        const item = document.createElement("li");
        if (problem.line) {
          const link = document.createElement("button");
          link.type = "button";
          link.textContent = `line ${problem.line}`;
          link.addEventListener("click", () => go(problem.line, problem.column ?? 1));
          item.append(link, " ");
        }
        item.append(problem.message);
        if (!problem.line && isOfFile) {
          const whole = document.createElement("a");
          whole.href = "/admin/config/edit";
          whole.target = "_blank";
          whole.textContent = "Edit the whole file";
          item.append(" ", whole);
        }
        return item;
      }));
      list.hidden = problems.length === 0;
    }

    // Problems the server told of when the form came back.
    const told = [...document.querySelectorAll(".notice [data-line]")];
    for (const link of told) link.addEventListener("click", (event) => { event.preventDefault(); go(Number(link.dataset.line)); });
    if (told.length) {
      editor.session.setAnnotations(told.map((link) => ({ row: Number(link.dataset.line) - 1, column: 0, text: link.parentElement.textContent.trim(), type: "error" })));
      go(Number(told[0].dataset.line));
    }

    let timer, asking;
    async function check() {
      asking?.abort();
      asking = new AbortController();
      try {
        const { problems } = await window.studio.call(box.dataset.check, {
          method: "POST", body: { yaml: editor.getValue(), at: box.dataset.at }, signal: asking.signal,
        });
        show(problems);
      } catch (error) {
        if (error.name !== "AbortError") show([{ message: error.message }]);
      }
    }
    editor.session.on("change", () => {
      area.value = editor.getValue();
      if (!box.dataset.check) return;
      clearTimeout(timer);
      timer = setTimeout(check, CHECK_AFTER_MS);
    });
    box.editor = editor;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const boxes = [...document.querySelectorAll("[data-yaml-editor]")];
    if (!boxes.length || !window.ace) return;
    schema = window.studio.call(boxes[0].dataset.schema).catch(() => null);
    boxes.forEach(begin);
  });
})();
