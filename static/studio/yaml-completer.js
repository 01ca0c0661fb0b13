// What may stand at a place of coulisse.yaml, by its JSON Schema.
(() => {
  "use strict";

  const CHOICES = ["anyOf", "oneOf", "allOf"];

  // All that the schema says about a place: behind references, in each branch.
  function alternatives(root, node, found = []) {
    if (!node || typeof node !== "object" || found.includes(node)) return found;
    if (node.$ref) alternatives(root, root.$defs[node.$ref.replace("#/$defs/", "")], found);
    for (const word of CHOICES) for (const branch of node[word] ?? []) alternatives(root, branch, found);
    found.push(node);
    return found;
  }

  function below(root, nodes, step) {
    const children = nodes.map((node) => {
      if (typeof step === "number") return node.items;
      return node.properties?.[step] ?? (typeof node.additionalProperties === "object" ? node.additionalProperties : null);
    });
    return children.flatMap((child) => alternatives(root, child));
  }

  function at(root, steps) {
    return steps.reduce((nodes, step) => below(root, nodes, step), alternatives(root, root));
  }

  const DASHES = /^\s*(?:- +|-$)*/;
  const KEY = /^(?<key>"[^"]*"|'[^']*'|[^\s#"'[{&*!|>%@`][^:#]*?)\s*:(?:\s+(?<value>.*))?$/;
  const bare = (key) => key.replace(/^(["'])(.*)\1$/, "$2");
  const isText = (value) => /^(?:[&!]\S+\s+)*[|>]/.test(value ?? "");

  // Reads lines as maps and lists that contain each other by how far they are indented.
  class Reading {
    constructor() {
      this.frames = [{ column: -1, step: null, keys: new Set() }];
    }

    get top() {
      return this.frames.at(-1);
    }

    leave(isLeft) {
      while (this.frames.length > 1 && isLeft(this.top)) this.frames.pop();
    }

    enter(column, step, text = false) {
      this.frames.push({ column, step, text, keys: new Set() });
    }

    // The dashes a line begins with; returns where what follows them stands.
    dashes(line) {
      const lead = DASHES.exec(line)[0];
      for (let column = 0; column < lead.length; column++) {
        if (lead[column] !== "-") continue;
        this.leave((it) => it.column > column || (it.column === column && it.step === 0));
        this.enter(column, 0);
      }
      return lead.length;
    }

    read(line) {
      const indent = line.length - line.trimStart().length;
      if (!line.trim() || line.trimStart().startsWith("#")) return;
      if (this.frames.some((it) => it.text && it.column < indent)) return;
      const column = this.dashes(line);
      const match = KEY.exec(line.slice(column));
      if (!match) return;
      const key = bare(match.groups.key);
      this.leave((it) => it.column >= column);
      this.top.keys.add(key);
      this.enter(column, key, isText(match.groups.value));
    }
  }

  // The steps to the map or value at a place, and the keys that stand there already.
  function where(lines, row, column) {
    const reading = new Reading();
    lines.slice(0, row).forEach((line) => reading.read(line));
    const line = lines[row].slice(0, column);
    const indent = line.length - line.trimStart().length;
    if (reading.frames.some((it) => it.text && it.column < indent)) return { steps: null, present: new Set() };
    const edge = reading.dashes(line);
    reading.leave((it) => it.column >= edge);
    const place = reading.top;
    const steps = reading.frames.slice(1).map((it) => it.step);
    for (const later of lines.slice(row + 1)) {
      reading.read(later);
      if (!reading.frames.includes(place)) break;
    }
    return { steps, present: place.keys };
  }

  function words(node) {
    if (node.const !== undefined) return [node.const];
    if (node.enum) return node.enum;
    return node.type === "boolean" ? [true, false] : [];
  }

  // Ace's own shape: caption, value, meta.
  function completions(schema, base, lines, row, column) {
    const line = lines[row].slice(0, column);
    if (/(^|\s)#/.test(line)) return [];
    const value = /^(?<lead>\s*(?:- +)*)(?<key>[^:#]+):\s+(?<typed>\S*)$/.exec(line);
    const { steps, present } = where(lines, row, column);
    if (steps === null) return [];
    if (value) {
      const nodes = at(schema, [...base, ...steps, bare(value.groups.key.trim())]);
      return [...new Set(nodes.flatMap(words))].filter((word) => word !== null && typeof word !== "object")
        .map((word) => ({ caption: String(word), value: String(word), meta: "value", score: 100 }));
    }
    if (!/^\s*(?:- +)*\S*$/.test(line)) return [];
    const nodes = at(schema, [...base, ...steps]);
    const found = new Map();
    for (const node of nodes)
      for (const [name, field] of Object.entries(node.properties ?? {}))
        if (!present.has(name) && !found.has(name)) found.set(name, { field, required: (node.required ?? []).includes(name) });
    const listed = [...found].map(([name, { field, required }]) => {
      const kinds = alternatives(schema, field);
      const nests = kinds.some((kind) => kind.properties || kind.items || kind.type === "object" || kind.type === "array");
      const plain = kinds.some((kind) => ["string", "integer", "number", "boolean"].includes(kind.type) || kind.enum || kind.const !== undefined);
      return {
        caption: name, value: `${name}:${nests && !plain ? "" : " "}`, meta: required ? "required" : "field", score: required ? 200 : 100,
        docText: [field.description, field.default !== undefined && field.default !== null ? `Default: ${JSON.stringify(field.default)}` : ""].filter(Boolean).join("\n\n"),
      };
    });
    const items = nodes.flatMap((node) => alternatives(schema, node.items)).flatMap(words);
    return [...listed, ...[...new Set(items)].map((word) => ({ caption: String(word), value: String(word), meta: "value", score: 100 }))];
  }

  // What the line after this one begins with: a step more after what opens a map, a list or a text.
  function indentAfter(line, isInText, tab) {
    const lead = /^\s*/.exec(line)[0];
    if (isInText) return lead;
    const dashes = DASHES.exec(line)[0];
    const rest = line.slice(dashes.length);
    const match = KEY.exec(rest);
    // Of a list of plain values the next one is wanted, of a map its next key.
    const isItem = rest !== "" && !match && dashes.includes("-") && !/[[{]\s*$/.test(rest);
    const same = isItem ? dashes.slice(0, dashes.lastIndexOf("-")) : dashes;
    const value = (match ? match.groups.value ?? "" : rest).replace(/^(?:[&!]\S+\s*)+/, "").replace(/(?:^|\s+)#.*$/, "");
    const opens = match ? /^(?:[|>][+-]?\d?[+-]?)?$/.test(value.trim()) : false;
    return same.replaceAll("-", " ") + (opens || /[[{]\s*$/.test(value) ? tab : "");
  }

  window.studioYaml = { completions, indentAfter, where };
})();
