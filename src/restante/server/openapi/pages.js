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
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    articles.forEach((one, place) => {
      const fits = words.every((word) => texts[place].includes(word));
      one.hidden = !fits;
      const link = document.querySelector(`nav a[href="#${CSS.escape(one.id)}"]`);
      if (link) link.parentElement.hidden = !fits;
    });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      box.focus();
    }
  });
  document.querySelector("nav").prepend(box);
}

const token = element("input", { type: "password", placeholder: "Token, if the hub asks for one", className: "search" });

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
  } catch (error) {
    shown.textContent = `The hub did not answer: ${error}`;
  }
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
  const shown = element("pre", { hidden: true });
  const button = element("button", { type: "button", textContent: "Send" });
  button.addEventListener("click", () => {
    shown.hidden = false;
    send({ ...request, target: target.value, body: body && body.value }, shown);
  });
  place.append(element("details", { className: "try" }, [element("summary", { textContent: "Try it" }), ...fields, button, shown]));
}

addSearch();
if (document.querySelector("[data-try]")) addToken();
document.querySelectorAll("[data-try]").forEach(addTrying);
