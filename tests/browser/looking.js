// What is seen of a page, for tests/browser/looking.py.
window.looking = {
  // Notes from now on what gets the focus, and what of it does not show.
  walk() {
    const look = (element) => {
      const style = getComputedStyle(element);
      const ring = style.outlineStyle === "none" ? "" : style.outlineWidth + style.outlineColor;
      return [ring, style.boxShadow, style.borderColor, style.backgroundColor].join();
    };
    const name = (element) => [element.tagName, element.name || element.href || "",
      (element.innerText || element.ariaLabel || "").trim().slice(0, 40)].join(" ").trim();
    window.walked = { reached: new Set(), unseen: [], over: false };
    let last = null, seen = null;
    document.addEventListener("focusin", ({ target }) => {
      if (last && look(last) === seen) walked.unseen.push(name(last));
      if (walked.reached.has(target)) walked.over = true;
      walked.reached.add(target);
      [last, seen] = [target, look(target)];
    });
  },

  // What a mouse can use and the walk has not come by.
  leftOut() {
    const ways = "a[href], button, input:not([type=hidden]), select, textarea, summary";
    return [...document.querySelectorAll("#studio :is(" + ways + ")")]
      .filter((element) => element.checkVisibility() && !element.disabled)
      .filter((element) => element.tabIndex >= 0 && !walked.reached.has(element))
      .map((element) => element.outerHTML.slice(0, 100));
  },

  // Texts that do not stand out from what is behind them, by WCAG's measure.
  faint() {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    const over = (colours) => {
      paint.clearRect(0, 0, 1, 1);
      for (const colour of colours) {
        paint.fillStyle = colour;
        paint.fillRect(0, 0, 1, 1);
      }
      return [...paint.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
      const colours = [];
      for (let at = element; at; at = at.parentElement) {
        colours.unshift(getComputedStyle(at).backgroundColor);
        if (over([colours[0]])[3] === 255) break;
      }
      return ["white", ...colours];
    };
    const faint = new Set();
    const root = document.getElementById("studio") ?? document.querySelector("main, #content") ?? document.body;
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walk.nextNode()); ) {
      const element = node.parentElement;
      if (!node.data.trim() || !element.checkVisibility({ opacityProperty: true })) continue;
      if (element.closest("svg, canvas, .sr, .ace_editor, [aria-hidden=true], :disabled")) continue;
      const style = getComputedStyle(element);
      const back = behind(element);
      const [a, b] = [light(over(back)), light(over([...back, style.color]))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const enough = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
      if (ratio < enough - 0.05)
        faint.add(`${ratio.toFixed(1)} ${element.tagName}.${element.className} ${node.data.trim().slice(0, 30)}`);
    }
    return [...faint].slice(0, 8);
  },

  isDark() {
    const paint = document.createElement("canvas").getContext("2d");
    paint.fillStyle = getComputedStyle(document.body).backgroundColor;
    paint.fillRect(0, 0, 1, 1);
    const [red, green, blue] = paint.getImageData(0, 0, 1, 1).data;
    return red + green + blue < 3 * 128;
  },
};
