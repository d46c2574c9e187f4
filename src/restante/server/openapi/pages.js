"use strict";
// Search, and trying the examples out, on the pages of the hub. The script is part of the page: nothing is loaded from
// elsewhere, and requests go to this hub alone. Texts are set as text, never as markup.

function element(name, properties, children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...(children || []));
  return made;
}

function addSearch() {
  const box = element("input", { type: "search", placeholder: "Search (press /)", className: "search" });
  box.setAttribute("aria-label", "Search");
  const articles = [...document.querySelectorAll("main article")];
  const texts = articles.map((one) => one.textContent.toLowerCase());
  const found = element("p", { className: "soft", hidden: true });
  found.setAttribute("role", "status");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    articles.forEach((one, place) => {
      const fits = words.every((word) => texts[place].includes(word));
      one.hidden = !fits;
      const link = document.querySelector(`nav a[href="#${CSS.escape(one.id)}"]`);
      if (link) link.parentElement.hidden = !fits;
    });
    // What has nothing left to show is not shown either.
    for (const part of document.querySelectorAll("main section")) part.hidden = words.length > 0 && !part.querySelector("article:not([hidden])");
    for (const group of document.querySelectorAll("nav .group")) group.hidden = !group.querySelector("li:not([hidden])");
    scrollTo(0, 0);
    const count = articles.filter((one) => !one.hidden).length;
    found.hidden = words.length === 0;
    found.textContent = count ? `${count} of ${articles.length} fit.` : "Nothing has all of these words. Press Escape to see everything.";
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    box.value = "";
    box.dispatchEvent(new Event("input"));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      box.focus();
    }
  });
  document.querySelector("nav").prepend(box);
  box.after(found);
}

const token = element("input", { type: "password", placeholder: "Token, if one is needed", className: "search" });

function addToken() {
  token.setAttribute("aria-label", "Token");
  token.autocomplete = "off";
  document.querySelector("nav .search").after(token);
}

async function send(request, shown) {
  const headers = { ...request.headers };
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  const body = request.body === null ? undefined : request.body;
  shown.textContent = "…";
  try {
    const answer = await fetch(request.target, { method: request.method, headers, body, redirect: "manual" });
    const text = await answer.text();
    let pretty = text;
    try {
      pretty = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // No JSON: shown as it is.
    }
    shown.textContent = `${answer.status} ${answer.statusText}\n${pretty}`;
    nameBundle(request.target, answer.headers.get("Restante-Bundle-Id"));
  } catch (error) {
    shown.textContent = `The hub did not answer: ${error}`;
  }
}

// The bundle that a peek answered is the one that the next dequeue names.
function nameBundle(target, bundle) {
  const peeked = /^(\/v1\/recipients\/[^/?]+)\/peek\b/.exec(target);
  if (!peeked || !bundle) return;
  for (const field of document.querySelectorAll("input.target")) {
    if (/^\/v1\/recipients\/[^/?]+\/bundles\/[^/?]+$/.test(field.value)) field.value = `${peeked[1]}/bundles/${bundle}`;
  }
}

// What removes something is sent by the second click: examples name real recipients on a hub that has them.
function removes(request) {
  return request.method === "DELETE" || (request.method === "POST" && /\/(purge|reset|reap|retain|withdraw|drain)\b/.test(request.target));
}

function armed(button) {
  if (button.textContent !== "Send") {
    button.textContent = "Send";
    return true;
  }
  button.textContent = "This hub will do it. Send?";
  button.addEventListener("blur", () => { button.textContent = "Send"; }, { once: true });
  return false;
}

function addTrying(place) {
  const request = JSON.parse(place.dataset.try);
  const target = element("input", { value: request.target, className: "target" });
  target.setAttribute("aria-label", "Path");
  const fields = [element("span", { textContent: request.method, className: `method ${request.method}` }), target];
  let body = null;
  if (request.body !== null) {
    body = element("textarea", { value: request.body, rows: Math.min(12, request.body.split("\n").length + 1) });
    body.setAttribute("aria-label", "Body");
    fields.push(body);
  }
  const shown = element("pre", { hidden: true, tabIndex: 0 });
  shown.setAttribute("role", "status");
  const button = element("button", { type: "button", textContent: "Send" });
  button.addEventListener("click", () => {
    if (removes({ ...request, target: target.value }) && !armed(button)) return;
    shown.hidden = false;
    send({ ...request, target: target.value, body: body && body.value }, shown);
  });
  place.append(element("details", { className: "try" }, [element("summary", { textContent: "Try it" }), ...fields, button, shown]));
}

addSearch();
if (document.querySelector("[data-try]")) addToken();
document.querySelectorAll("[data-try]").forEach(addTrying);
