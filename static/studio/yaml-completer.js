// Completions for a position in coulisse.yaml, from its JSON Schema.
(() => {
  "use strict";

  const CHOICES = ["anyOf", "oneOf", "allOf"];

  // Returns a schema and all schemas behind its references and in its branches.
  function alternatives(root, node, found = []) {
    if (!node || typeof node !== "object" || found.includes(node)) return found;
    if (node.$ref) alternatives(root, root.$defs[node.$ref.replace("#/$defs/", "")], found);
    for (const keyword of CHOICES) for (const branch of node[keyword] ?? []) alternatives(root, branch, found);
    found.push(node);
    return found;
  }

  function childSchemas(root, nodes, step) {
    const children = nodes.map((node) => {
      if (typeof step === "number") return node.items;
      return node.properties?.[step] ?? (typeof node.additionalProperties === "object" ? node.additionalProperties : null);
    });
    return children.flatMap((child) => alternatives(root, child));
  }

  function schemasAt(root, steps) {
    return steps.reduce((nodes, step) => childSchemas(root, nodes, step), alternatives(root, root));
  }

  const DASHES = /^\s*(?:- +|-$)*/;
  const KEY = /^(?<key>"[^"]*"|'[^']*'|[^\s#"'[{&*!|>%@`][^:#]*?)\s*:(?:\s+(?<value>.*))?$/;
  const unquote = (key) => key.replace(/^(["'])(.*)\1$/, "$2");
  const isBlockText = (value) => /^(?:[&!]\S+\s+)*[|>]/.test(value ?? "");

  // Tracks the nesting of maps and lists by the indentation of lines.
  class NestingParser {
    constructor() {
      this.frames = [{ column: -1, step: null, keys: new Set() }];
    }

    get top() {
      return this.frames.at(-1);
    }

    pop(isClosed) {
      while (this.frames.length > 1 && isClosed(this.top)) this.frames.pop();
    }

    push(column, step, text = false) {
      this.frames.push({ column, step, text, keys: new Set() });
    }

    // Reads the dashes at the start of a line; returns the column after them.
    readDashes(line) {
      const lead = DASHES.exec(line)[0];
      for (let column = 0; column < lead.length; column++) {
        if (lead[column] !== "-") continue;
        this.pop((it) => it.column > column || (it.column === column && it.step === 0));
        this.push(column, 0);
      }
      return lead.length;
    }

    read(line) {
      const indent = line.length - line.trimStart().length;
      if (!line.trim() || line.trimStart().startsWith("#")) return;
      if (this.frames.some((it) => it.text && it.column < indent)) return;
      const column = this.readDashes(line);
      const match = KEY.exec(line.slice(column));
      if (!match) return;
      const key = unquote(match.groups.key);
      this.pop((it) => it.column >= column);
      this.top.keys.add(key);
      this.push(column, key, isBlockText(match.groups.value));
    }
  }

  // Returns the steps to the map or value at a position, and the keys it already has.
  function locate(lines, row, column) {
    const parser = new NestingParser();
    lines.slice(0, row).forEach((line) => parser.read(line));
    const line = lines[row].slice(0, column);
    const indent = line.length - line.trimStart().length;
    if (parser.frames.some((it) => it.text && it.column < indent)) return { steps: null, present: new Set() };
    const start = parser.readDashes(line);
    parser.pop((it) => it.column >= start);
    const container = parser.top;
    const steps = parser.frames.slice(1).map((it) => it.step);
    for (const later of lines.slice(row + 1)) {
      parser.read(later);
      if (!parser.frames.includes(container)) break;
    }
    return { steps, present: container.keys };
  }

  function allowedValues(node) {
    if (node.const !== undefined) return [node.const];
    if (node.enum) return node.enum;
    return node.type === "boolean" ? [true, false] : [];
  }

  // Returns completions in Ace's format: caption, value, meta.
  function completions(schema, base, lines, row, column) {
    const line = lines[row].slice(0, column);
    if (/(^|\s)#/.test(line)) return [];
    const value = /^(?<lead>\s*(?:- +)*)(?<key>[^:#]+):\s+(?<typed>\S*)$/.exec(line);
    const { steps, present } = locate(lines, row, column);
    if (steps === null) return [];
    if (value) {
      const nodes = schemasAt(schema, [...base, ...steps, unquote(value.groups.key.trim())]);
      return [...new Set(nodes.flatMap(allowedValues))].filter((option) => option !== null && typeof option !== "object")
        .map((option) => ({ caption: String(option), value: String(option), meta: "value", score: 100 }));
    }
    if (!/^\s*(?:- +)*\S*$/.test(line)) return [];
    const nodes = schemasAt(schema, [...base, ...steps]);
    const found = new Map();
    for (const node of nodes)
      for (const [name, field] of Object.entries(node.properties ?? {}))
        if (!present.has(name) && !found.has(name)) found.set(name, { field, required: (node.required ?? []).includes(name) });
    const listed = [...found].map(([name, { field, required }]) => {
      const schemas = alternatives(schema, field);
      const isNested = schemas.some((it) => it.properties || it.items || it.type === "object" || it.type === "array");
      const isScalar = schemas.some((it) => ["string", "integer", "number", "boolean"].includes(it.type) || it.enum || it.const !== undefined);
      return {
        caption: name, value: `${name}:${isNested && !isScalar ? "" : " "}`, meta: required ? "required" : "field", score: required ? 200 : 100,
        docText: [field.description, field.default !== undefined && field.default !== null ? `Default: ${JSON.stringify(field.default)}` : ""].filter(Boolean).join("\n\n"),
      };
    });
    const items = nodes.flatMap((node) => alternatives(schema, node.items)).flatMap(allowedValues);
    return [...listed, ...[...new Set(items)].map((option) => ({ caption: String(option), value: String(option), meta: "value", score: 100 }))];
  }

  // Returns the indentation of the next line: one step more after a line that opens a map, a list or a text.
  function indentAfter(line, isInBlockText, tab) {
    const lead = /^\s*/.exec(line)[0];
    if (isInBlockText) return lead;
    const dashes = DASHES.exec(line)[0];
    const rest = line.slice(dashes.length);
    const match = KEY.exec(rest);
    // After a plain value of a list follows the next value; after a key of a map, the next key.
    const isItem = rest !== "" && !match && dashes.includes("-") && !/[[{]\s*$/.test(rest);
    const sameLevel = isItem ? dashes.slice(0, dashes.lastIndexOf("-")) : dashes;
    const value = (match ? match.groups.value ?? "" : rest).replace(/^(?:[&!]\S+\s*)+/, "").replace(/(?:^|\s+)#.*$/, "");
    const opens = match ? /^(?:[|>][+-]?\d?[+-]?)?$/.test(value.trim()) : false;
    return sameLevel.replaceAll("-", " ") + (opens || /[[{]\s*$/.test(value) ? tab : "");
  }

  window.studioYaml = { completions, indentAfter, locate };
})();
