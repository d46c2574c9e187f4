// Runs the script of the pages on a page of two routes, without a browser: prints what search hides and what is sent.
"use strict";
const { readFileSync } = require("node:fs");
const vm = require("node:vm");

class Node {
  constructor(name, properties = {}) {
    Object.assign(this, { tagName: name.toUpperCase(), children: [], dataset: {}, hidden: false, listeners: {} }, properties);
  }
  append(...children) {
    for (const child of children) Object.assign(child, { parentElement: this });
    this.children.push(...children);
  }
  prepend(child) {
    this.children.unshift(child);
  }
  after(sibling) {
    this.sibling = sibling;
  }
  setAttribute() {}
  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }
}

const article = (id, textContent) => new Node("article", { id, textContent });
const articles = [article("publish", "POST /v1/messages store"), article("peek", "GET peek a bundle")];
const links = articles.map(() => new Node("a", { parentElement: new Node("li") }));
const request = { method: "POST", target: "/v1/messages", headers: { "Content-Type": "application/json" }, body: "{}" };
const example = new Node("details", { dataset: { try: JSON.stringify(request) } });
const nav = new Node("nav");
const document = {
  activeElement: new Node("body"),
  addEventListener() {},
  createElement: (name) => new Node(name),
  querySelector(selector) {
    if (selector === "nav") return nav;
    if (selector === "nav .search") return nav.children[0];
    if (selector === "[data-try]") return example;
    return links[articles.findIndex((one) => selector.includes(`#${one.id}"`))] || null;
  },
  querySelectorAll: (selector) => ({ "[data-try]": [example], "main article": articles })[selector] || [],
};
const sent = [];
const fetch = async (target, options) => {
  sent.push({ target, ...options });
  return { status: 200, statusText: "OK", headers: new Map(), text: async () => '{"accepted":1}' };
};
const scrolled = [];
const scrollTo = (...place) => scrolled.push(place);
vm.runInNewContext(readFileSync(process.argv[2], "utf8"), { document, fetch, scrollTo, CSS: { escape: (text) => text }, JSON, Math });

const search = nav.children[0];
search.value = "peek";
search.listeners.input();
search.sibling.value = "secret";
const tried = example.children[0];
const [button, shown] = tried.children.slice(-2);
button.listeners.click();
setImmediate(() => {
  const hidden = articles.map((one) => one.hidden);
  const unlisted = links.map((one) => one.parentElement.hidden);
  console.log(JSON.stringify({ hidden, unlisted, scrolled, sent, shown: shown.textContent }));
});
