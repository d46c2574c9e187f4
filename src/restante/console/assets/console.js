// The script of the console. Pages work without it; with it they move, read out plots, and keep times true.
"use strict";

(() => {
  // One stream a page: parts of it come again when they have changed.

  const lost = document.getElementById("lost");

  function tellLost(text, offer) {
    if (lost === null) return;
    lost.hidden = text === "";
    if (text === "") return;
    lost.textContent = text;
    if (offer === undefined) return;
    const again = document.createElement("a");
    again.href = location.href;
    again.textContent = offer;
    lost.append(" ", again);
  }

  // Whether the page can be had again. If its answer is an error of the hub, or none, it is asked for until there is one.
  const PAUSE = 3000;

  function whenItIsThere(then) {
    setTimeout(async () => {
      const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" }).catch(() => null);
      if (answer === null || answer.status >= 500) whenItIsThere(then);
      else then(answer);
    }, PAUSE * (1 + Math.random() / 2));
  }

  if (document.body.dataset.away !== undefined) whenItIsThere(() => location.reload());

  function busyIn(part) {
    const own = document.activeElement;
    return own !== null && own !== document.body && part.contains(own) && own.matches("input, select, textarea");
  }

  // What came for a part that is in use waits until it is not: somebody types in it, or selects its text.

  const came = new Map();

  function showWhatCame() {
    for (const [name, html] of came) {
      const part = document.getElementById(`part-${name}`);
      if (part !== null && (busyIn(part) || selectedIn(part))) continue;
      came.delete(name);
      if (part !== null) show(part, html);
    }
  }

  function show(part, html) {
    const focus = focusOf(part), opened = openedIn(part);
    part.innerHTML = html;
    opened();
    focus();
    tick();
  }

  function selectedIn(part) {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && selection.containsNode(part, true);
  }

  // What was unfolded stays so, by its key.
  function openedIn(part) {
    const keys = new Set([...part.querySelectorAll("details[open][data-key]")].map((own) => own.dataset.key));
    return () => {
      for (const own of part.querySelectorAll("details[data-key]")) own.open = keys.has(own.dataset.key);
    };
  }

  // A browser has six connections to a host for all of its pages. So a page that is not seen has no stream: else the seventh page never came.

  const address = document.body.dataset.stream;
  let stream = null, waits = false;

  function follow() {
    if (document.hidden || waits || stream !== null) return;
    const own = stream = new EventSource(address);
    own.addEventListener("part", (event) => {
      tellLost("");
      const { name, html } = JSON.parse(event.data);
      came.set(name, html);
      showWhatCame();
    });
    own.addEventListener("trouble", () => tellLost("The hub does not answer. Trying again…"));
    own.addEventListener("open", () => tellLost(""));
    own.addEventListener("error", () => {
      tellLost("Not connected. Trying again…");
      // A browser tries again by itself if the connection was lost, but not if the answer was an error.
      if (own.readyState !== EventSource.CLOSED) return;
      stream = null;
      waits = true;
      whenItIsThere(followAgain);
    });
  }

  function leave() {
    if (stream !== null) stream.close();
    stream = null;
  }

  function followAgain(answer) {
    waits = !answer.ok;
    if (answer.ok) follow();
    else if (answer.type === "opaqueredirect") tellLost("Your session has ended.", "Sign in again");
    else tellLost("This page does not move any more.", "Load it again");
  }

  // What has the focus keeps it when its part is replaced: found again by its address, or else by its place.
  function focusOf(part) {
    const own = document.activeElement;
    if (own === null || !part.contains(own)) return () => {};
    const address = own.getAttribute("href");
    const kind = ["a[href]", "summary", ".scroll", "pre"].find((one) => own.matches(one));
    if (kind === undefined) return () => {};
    const place = [...part.querySelectorAll(kind)].indexOf(own);
    return () => {
      const found = [...part.querySelectorAll(kind)];
      const again = address === null ? found[place] : found.find((link) => link.getAttribute("href") === address);
      if (again !== undefined) again.focus({ preventScroll: true });
    };
  }

  if (address) {
    follow();
    document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else follow(); });
    addEventListener("pagehide", leave);
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  // Times stay true.

  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

  function span(seconds) {
    for (const [size, unit] of UNITS) if (seconds >= size) return `${Math.round(seconds / size)} ${unit}`;
    return "0 s";
  }

  function tick() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
      const said = seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
      if (time.textContent !== said) time.textContent = said;
    }
  }

  setInterval(() => { tick(); showWhatCame(); }, 1000);

  // What a plot says under the pointer.

  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT] = [480, 96];

  function readingOf(plot, event) {
    const times = JSON.parse(plot.dataset.times);
    const values = JSON.parse(plot.dataset.values);
    const box = plot.getBoundingClientRect();
    const end = times[times.length - 1];
    const wanted = end - Number(plot.dataset.span) * (1 - (event.clientX - box.left) / box.width);
    let best = 0;
    times.forEach((time, index) => { if (Math.abs(time - wanted) < Math.abs(times[best] - wanted)) best = index; });
    return { at: times[best], value: values[best], x: WIDTH * (1 - (end - times[best]) / Number(plot.dataset.span)) };
  }

  function forget(tile) {
    for (const own of tile.querySelectorAll(".reading, .cursor")) own.remove();
  }

  document.addEventListener("pointermove", (event) => {
    const plot = event.target instanceof Element ? event.target.closest("svg.plot[data-times]") : null;
    for (const tile of document.querySelectorAll(".tile")) if (plot === null || !tile.contains(plot)) forget(tile);
    if (plot === null) return;
    const tile = plot.closest(".tile");
    forget(tile);
    const found = readingOf(plot, event);
    const line = document.createElementNS(SVG, "line");
    for (const [name, value] of [["x1", found.x], ["x2", found.x], ["y1", 0], ["y2", HEIGHT]]) line.setAttribute(name, value);
    line.setAttribute("class", "cursor");
    plot.append(line);
    const said = document.createElement("span");
    said.className = "reading";
    const clock = new Date(found.at * 1000).toLocaleTimeString();
    said.textContent = `${clock}  ${found.value === null ? "–" : found.value.toLocaleString("en")} ${plot.dataset.unit}`;
    tile.append(said);
  });

  // A change can be confirmed when its name was typed. The server looks again.

  const typed = document.querySelector("input[data-typed]");
  if (typed !== null) {
    const button = typed.form.querySelector(".typed button");
    const look = () => { button.disabled = typed.value.trim() !== typed.dataset.typed.trim(); };
    typed.addEventListener("input", look);
    look();
    // Enter would press the first button of the form, which may be another one.
    typed.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      button.click();
    });
  }

  // A narrow window shows the names of the pages in one row: the one of this page is scrolled into view.

  const shown = document.querySelector(".frame > nav a[aria-current]");
  if (shown !== null) shown.scrollIntoView({ block: "nearest", inline: "center" });

  // A choice that filters a list does so at once if a pointer made it. Keys go through all choices on their way: Enter ends it.

  const choice = (event) => event.target instanceof Element ? event.target.closest("select[data-submit]") : null;
  let pointed = null;
  document.addEventListener("pointerdown", (event) => { pointed = choice(event); });
  document.addEventListener("change", (event) => {
    if (pointed !== null && choice(event) === pointed) pointed.form.requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    const own = choice(event);
    if (own === null) return;
    pointed = null;
    if (event.key === "Enter") own.form.requestSubmit();
  });

  // Keys: / goes to the search; g and a letter to a page.

  let going = 0;
  document.addEventListener("keydown", (event) => {
    const writing = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (writing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      const search = document.querySelector("[data-hotkey='/']");
      if (search !== null) { event.preventDefault(); search.focus(); }
    } else if (event.key === "g" && Date.now() - going >= 1500) {
      going = Date.now();
    } else if (Date.now() - going < 1500) {
      going = 0;
      // Of several pages with this letter, the one after the page that is shown.
      const links = [...document.querySelectorAll(".frame > nav a")];
      const here = links.findIndex((link) => link.hasAttribute("aria-current"));
      const turned = [...links.slice(here + 1), ...links.slice(0, here + 1)];
      const wanted = turned.find((link) => link.textContent.toLowerCase().startsWith(event.key));
      if (wanted !== undefined) wanted.click();
    }
  });
})();
