// Layout checks for layout_checks.py.
window.layoutChecks = {
  // Record each element that receives the focus, and whether its style then changes.
  recordFocus() {
    const appearance = (element) => {
      const style = getComputedStyle(element);
      const ring = style.outlineStyle === "none" ? "" : style.outlineWidth + style.outlineColor;
      return [ring, style.boxShadow, style.borderColor, style.backgroundColor].join();
    };
    const describe = (element) => [element.tagName, element.name || element.href || "",
      (element.innerText || element.ariaLabel || "").trim().slice(0, 40)].join(" ").trim();
    window.focusRecord = { reached: new Set(), unmarked: [], isComplete: false };
    let last = null, focusedAppearance = null;
    document.addEventListener("focusin", ({ target }) => {
      if (last && appearance(last) === focusedAppearance) focusRecord.unmarked.push(describe(last));
      if (focusRecord.reached.has(target)) focusRecord.isComplete = true;
      focusRecord.reached.add(target);
      [last, focusedAppearance] = [target, appearance(target)];
    });
  },

  // Return visible controls that have not received the focus.
  unreachedControls() {
    const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary";
    return [...document.querySelectorAll("#studio :is(" + controls + ")")]
      .filter((element) => element.checkVisibility() && !element.disabled)
      .filter((element) => element.tabIndex >= 0 && !focusRecord.reached.has(element))
      .map((element) => element.outerHTML.slice(0, 100));
  },

  // Return texts below WCAG's contrast ratio of 4.5, or 3 if they are large.
  lowContrastTexts() {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    const blend = (colours) => {
      paint.clearRect(0, 0, 1, 1);
      for (const colour of colours) {
        paint.fillStyle = colour;
        paint.fillRect(0, 0, 1, 1);
      }
      return [...paint.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const backgrounds = (element) => {
      const colours = [];
      for (let at = element; at; at = at.parentElement) {
        colours.unshift(getComputedStyle(at).backgroundColor);
        if (blend([colours[0]])[3] === 255) break;
      }
      return ["white", ...colours];
    };
    const texts = new Set();
    const root = document.getElementById("studio") ?? document.querySelector("main, #content") ?? document.body;
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
      const element = node.parentElement;
      if (!node.data.trim() || !element.checkVisibility({ opacityProperty: true })) continue;
      if (element.closest("svg, canvas, .sr, .ace_editor, [aria-hidden=true], :disabled")) continue;
      const style = getComputedStyle(element);
      const layers = backgrounds(element);
      const [a, b] = [luminance(blend(layers)), luminance(blend([...layers, style.color]))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const required = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
      if (ratio < required - 0.05)
        texts.add(`${ratio.toFixed(1)} ${element.tagName}.${element.className} ${node.data.trim().slice(0, 30)}`);
    }
    return [...texts].slice(0, 8);
  },

  isDark() {
    const paint = document.createElement("canvas").getContext("2d");
    paint.fillStyle = getComputedStyle(document.body).backgroundColor;
    paint.fillRect(0, 0, 1, 1);
    const [red, green, blue] = paint.getImageData(0, 0, 1, 1).data;
    return red + green + blue < 3 * 128;
  },
};
