"use strict";
// Shows an OpenAPI 3.1 document. Everything is made of text nodes: nothing of the document is read as HTML.

const METHODS = ["get", "post", "put", "patch", "delete"];
let whole = {};

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined));
  return element;
}

function resolved(value) {
  const path = value && value.$ref;
  if (!path) return value || {};
  const target = path.slice(2).split("/").reduce((at, part) => (at || {})[part.replace(/~1/g, "/").replace(/~0/g, "~")], whole);
  const { $ref, ...siblings } = value;
  return { ...resolved(target), ...siblings, name$: path.split("/").pop() };
}

/* The little of Markdown that the document uses: bold, code, tables, paragraphs. */
function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).filter(Boolean).map((part) => {
    if (part.startsWith("**")) return make("strong", {}, inline(part.slice(2, -2)));
    if (part.startsWith("`")) return make("code", {}, part.slice(1, -1));
    return part;
  });
}

function prose(text) {
  return (text || "").trim().split(/\n\s*\n/).filter(Boolean).map((block) => {
    const lines = block.split("\n");
    if (!lines.every((line) => line.trim().startsWith("|"))) return make("p", {}, inline(lines.join(" ")));
    const rows = lines.filter((line) => !/^[\s|:-]+$/.test(line));
    const cells = (line, name) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => make(name, {}, inline(cell.trim())));
    return make("table", {}, rows.map((line, i) => make("tr", {}, cells(line, i === 0 ? "th" : "td"))));
  });
}

function typeOf(schema) {
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const items = schema.items ? resolved(schema.items) : null;
  const types = [schema.type || (schema.properties || schema.allOf ? "object" : "any")].flat();
  const text = types.map((type) => (type === "array" && items ? `array of ${items.name$ || typeOf(items)}` : type)).join(" | ");
  return schema.format ? `${text} (${schema.format})` : text;
}

function bounds(schema) {
  const said = [];
  const between = (least, most, unit) => {
    if (least === undefined && most === undefined) return;
    said.push(`${least === undefined ? "at most" : least}${least !== undefined && most !== undefined ? "–" : " "}${most === undefined ? "or more" : most}${unit}`);
  };
  between(schema.minLength, schema.maxLength, " characters");
  between(schema.minimum, schema.maximum, "");
  between(schema.minItems, schema.maxItems, " items");
  if (schema.default !== undefined) said.push(`by default ${JSON.stringify(schema.default)}`);
  if (schema.readOnly) said.push("read only");
  if (schema.writeOnly) said.push("write only");
  return said.length ? ` · ${said.join(" · ")}` : "";
}

/* allOf is one object to the reader. */
function merged(schema) {
  const parts = (schema.allOf || []).map((part) => merged(resolved(part)));
  if (!parts.length) return schema;
  const { allOf, ...own } = schema;
  return [...parts, own].reduce((sum, part) => ({
    ...sum, ...part,
    properties: { ...sum.properties, ...part.properties },
    required: [...(sum.required || []), ...(part.required || [])],
  }), {});
}

function fields(given, depth) {
  const schema = merged(resolved(given));
  const choices = schema.oneOf || schema.anyOf;
  if (choices) {
    const shown = (choice, i) => make("li", {}, make("details", depth < 1 ? { open: "" } : {},
      make("summary", {}, `${i + 1}: ${resolved(choice).name$ || typeOf(merged(resolved(choice)))}`), fields(choice, depth + 1)));
    return make("ul", { class: "fields" }, make("li", { class: "type" }, "one of"), choices.map(shown));
  }
  if (schema.items) return depth > 6 ? null : fields(schema.items, depth + 1);
  const names = Object.keys(schema.properties || {});
  if (!names.length || depth > 6) return null;
  return make("ul", { class: "fields" }, names.map((name) => {
    const field = merged(resolved(schema.properties[name]));
    const inner = field.properties || field.items || field.oneOf ? fields(field, depth + 1) : null;
    const needed = (schema.required || []).includes(name) ? make("span", { class: "needed" }, " required") : null;
    const about = field.description ? [" — ", inline(field.description.trim())] : null;
    const fold = inner && depth > 0 ? make("details", {}, make("summary", {}, "fields"), inner) : inner;
    return make("li", {}, make("code", {}, name), " ", make("span", { class: "type" }, typeOf(field) + bounds(field)), needed, about, fold);
  }));
}

function body(content) {
  return Object.entries(content || {}).map(([media, { schema, example }]) => {
    const type = merged(resolved(schema));
    return make("div", {}, make("p", { class: "type" }, `${media}: ${typeOf(type)}`), type.description ? prose(type.description) : null,
      example === undefined ? null : make("pre", { class: "example" }, make("code", {}, JSON.stringify(example, null, 2))), fields(schema, 0));
  });
}

function operation(path, method, about, shared) {
  const parameters = [...(shared || []), ...(about.parameters || [])].map(resolved);
  const rows = parameters.map((p) => {
    const schema = merged(resolved(p.schema));
    return make("tr", {}, make("td", {}, make("code", {}, p.name), p.required ? make("span", { class: "needed" }, " required") : null),
      make("td", { class: "type" }, p.in), make("td", { class: "type" }, typeOf(schema) + bounds(schema)), make("td", {}, inline(p.description || "")));
  });
  const head = ["Parameter", "In", "Type", ""].map((text) => make("th", {}, text));
  const request = about.requestBody ? resolved(about.requestBody) : null;
  const responses = Object.entries(about.responses || {}).map(([status, given]) => {
    const response = resolved(given);
    const isError = status === "default";
    const inside = [isError ? null : body(response.content)];
    return isError ? make("p", {}, make("a", { href: "#errors" }, "Errors")) : make("div", {},
      make("p", {}, make("strong", {}, status), " ", inline(response.description || "")), inside);
  });
  return make("article", { id: about.operationId },
    make("h3", {}, about.summary || about.operationId),
    make("p", { class: "address" }, make("span", { class: `method ${method}` }, method.toUpperCase()), path),
    prose(about.description),
    rows.length ? [make("h4", {}, "Parameters"), make("table", {}, make("tr", {}, head), rows)] : null,
    request ? [make("h4", {}, "Request"), body(request.content)] : null,
    make("h4", {}, "Response"), responses);
}

function show(found) {
  whole = found;
  const [nav, main] = [document.querySelector("nav"), document.querySelector("main")];
  const operations = Object.entries(found.paths || {}).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ path, method, about: item[method], shared: item.parameters })));
  const base = ((found.servers || [])[0] || {}).url || "";
  main.replaceChildren(make("h1", {}, `${found.info.title} API`),
    make("p", {}, "Base URL ", make("code", {}, base), " · ", make("a", { href: "/api/v1/openapi.json" }, "openapi.json")),
    ...prose(found.info.description));
  nav.append(make("strong", {}, `${found.info.title} API`));
  for (const { name } of found.tags || []) {
    const own = operations.filter(({ about }) => (about.tags || [])[0] === name);
    if (!own.length) continue;
    nav.append(make("h2", {}, name), ...own.map(({ method, about }) =>
      make("a", { href: `#${about.operationId}` }, make("span", { class: `method ${method}` }, method.toUpperCase()), about.summary)));
    main.append(make("h2", {}, name), ...own.map(({ path, method, about, shared }) => operation(path, method, about, shared)));
  }
  const error = resolved({ $ref: "#/components/responses/Error" });
  main.append(make("h2", { id: "errors" }, "Errors"), ...prose(error.description), ...body(error.content));
  if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

fetch("/api/v1/openapi.json")
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`${answer.status}`))))
  .then(show)
  .catch((error) => document.querySelector("main").append(make("p", { class: "problem" }, `The document cannot be shown: ${error.message}`)));
