// Redrive console: refreshing, keys, copying. Every page can be read without it.
"use strict";
(() => {
  const $ = (query, from = document) => from.querySelector(query);
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const pulse = $("#pulse");
  if (!pulse) return;
  const beat = $(".beat", pulse), button = $("[data-live]", pulse), clock = $("#clock");
  const words = pulse.dataset;

  // A refresh must not untick boxes, close details or reset fields: the server does not know them.
  Idiomorph.defaults.ignoreActiveValue = true;
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
    !(name === "open" || name === "checked" || name === "hidden" || (name === "value" && node.matches("input, textarea, select")) || (name === "class" && node.matches("[data-row]")));

  let paused = false, failures = 0, signedOut = false, sending = false, seen = clock ? clock.textContent : "";
  const every = () => Number($("#live").dataset.every || 0);
  let next = Date.now() + 1000 * every();

  const isHeld = () => sending || Boolean($("main [data-rows] input:checked, main .menu[open], main form[data-touched], dialog[open]"));

  function say(text, kind) {
    if (beat.textContent !== text) beat.textContent = text;
    beat.className = "beat " + kind;
  }

  function show() {
    if (sending) return say(words.busy, "still");
    button.hidden = !every() || signedOut;
    button.setAttribute("aria-pressed", String(paused));
    if (button.hidden) return;
    if (paused) say(words.paused, "still");
    else if (failures) say(words.lost.replace("{c}", seen), "lost");
    else if (isHeld()) say(words.held, "still");
    else say(words.live.replace("{s}", every()), "");
  }

  function tick() {
    const wait = 1000 * every(), now = Date.now();
    if (wait && !signedOut && !paused && !document.hidden && !isHeld() && now >= next) {
      next = now + Math.max(wait, failures ? Math.min(30000, wait * 2 ** failures) : 0);
      htmx.trigger("#live", "refresh");
    }
    show();
  }

  // The sign-in page of a proxy in front of the console comes as a page, too.
  const isOurs = (xhr) => xhr.responseText.includes('id="live"');
  document.addEventListener("htmx:beforeSwap", (event) => { event.detail.shouldSwap &&= isOurs(event.detail.xhr); });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { xhr, successful } = event.detail;
    if (xhr && (xhr.status === 401 || successful && !isOurs(xhr))) {
      signedOut = true;
      say(words.out + " ", "lost");
      const link = document.createElement("a");
      link.href = words.to + "?next=" + encodeURIComponent(location.pathname.slice(words.to.length - "/sign-in".length) + location.search);
      link.textContent = words.signIn;
      beat.append(link);
    } else if (successful) {
      failures = 0;
    } else {
      failures += 1;
    }
    document.body.classList.toggle("stale", failures > 0 || signedOut);
    show();
  });
  document.addEventListener("htmx:afterSettle", () => {
    seen = clock.textContent;
    if (!every()) say("", "still");
    ready();
  });

  // A plan over many jobs takes seconds: say that it is being made. A page of the history is not sending.
  document.addEventListener("submit", (event) => { sending = event.target.method === "post"; show(); });
  addEventListener("pageshow", () => { sending = false; show(); });
  button.addEventListener("click", () => { paused = !paused; show(); });
  document.addEventListener("input", (event) => {
    const form = event.target.closest("main form:not([role=search])");
    if (form && !event.target.matches("[data-rows] input[type=checkbox]")) form.dataset.touched = "";
    count();
  });

  // Ticked rows.
  function count() {
    const place = $("[data-count]");
    if (!place) return;
    const ticked = all("[data-rows] input[name=q]:checked").length;
    place.dataset.none = place.dataset.none || place.textContent;
    place.textContent = ticked ? place.dataset.count.replace("{n}", ticked) : place.dataset.none;
    all("[data-rows] input[name=q]").forEach((box) => box.closest("tr, li").classList.toggle("on", box.checked));
    show();
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) all("[data-rows] input[name=q]:enabled").forEach((box) => { box.checked = event.target.checked; });
    count();
  });

  // Copying, also where the page was not sent over HTTPS.
  async function copy(text) {
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "sr";
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  document.addEventListener("click", (event) => {
    const copier = event.target.closest("[data-copy]");
    if (copier) {
      const label = copier.getAttribute("aria-label"), text = copier.dataset.copy;
      copy(text === "#payload" ? document.querySelector(text).textContent : text).then(() => {
        copier.classList.add("done");
        copier.setAttribute("aria-label", copier.dataset.done);
        setTimeout(() => { copier.classList.remove("done"); copier.setAttribute("aria-label", label); }, 1500);
      });
    }
    all(".menu[open]").filter((menu) => !menu.contains(event.target)).forEach((menu) => { menu.open = false; });
  });
  function ready() { all("[data-copy][hidden]").forEach((one) => { one.hidden = false; }); count(); }

  // Keys. None of them changes anything by itself.
  const keys = $("#keys"), off = $("#keys-off");
  off.checked = localStorage.getItem("redrive-keys") === "off";
  off.addEventListener("change", () => localStorage.setItem("redrive-keys", off.checked ? "off" : "on"));
  let going = 0;
  const rows = () => all("[data-row]");
  const at = () => rows().findIndex((row) => row.classList.contains("at"));
  function move(step) {
    const list = rows(), to = list[Math.max(0, Math.min(list.length - 1, at() + step))];
    if (!to) return;
    list.forEach((row) => row.classList.toggle("at", row === to));
    ($("[data-open]", to) || to).focus();
    to.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") all(".menu[open]").forEach((menu) => { menu.open = false; $("summary", menu).focus(); });
    if (event.ctrlKey || event.metaKey || event.altKey || off.checked && event.key !== "?" || event.target.closest("input:not([type=checkbox]), textarea, select, dialog[open]")) return;
    const row = rows()[at()], press = (query) => { const one = (row && $(query, row)) || $("main " + query); if (one) one.click(); };
    const link = Date.now() - going < 1500 && $(`.nav [data-go="${event.key}"]`);
    if (link) { going = 0; link.click(); return; }
    switch (event.key) {
      case "/": event.preventDefault(); ($("main input[type=search]") || $("#find")).focus(); break;
      case "g": going = Date.now(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "x": if (row && $("input[name=q]", row)) $("input[name=q]", row).click(); break;
      case "r": press("[data-retry]"); break;
      case "e": press("[data-edit]"); break;
      case "n": if ($("#note")) { event.preventDefault(); $("#note").open = true; $("#note textarea").focus(); } break;
      case ".": button.click(); break;
      case "?": keys.showModal(); break;
    }
  });

  ready();
  setInterval(tick, 500);
  document.addEventListener("visibilitychange", show);
  tick();
})();
