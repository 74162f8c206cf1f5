// The inbox, live. Without this script every page works; with it they count down, renew themselves and obey keys.
// Nothing here writes text that others wrote: what is renewed is HTML that the broker has made and escaped.
"use strict";
(() => {
  const body = document.body;
  const live = document.getElementById("live");
  const said = document.getElementById("said");
  const lost = document.getElementById("lost");
  // The broker's clock decides, not this one's.
  const ahead = Date.now() - Number(body.dataset.now);
  document.documentElement.classList.add("script");

  const words = (ms) => {
    const s = Math.floor(ms / 1000), d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
    if (d) return `${d} d ${h} h`;
    if (h) return `${h} h ${m} min`;
    return m ? `${m} min ${s % 60} s` : `${s} s`;
  };
  const count = () => {
    for (const left of document.querySelectorAll("[data-until]")) {
      const ms = Number(left.dataset.until) - (Date.now() - ahead);
      left.textContent = ms > 0 ? `${words(ms)} left` : "time is up";
      left.classList.toggle("soon", ms < 60000);
    }
    for (const age of document.querySelectorAll("[data-since]")) {
      age.textContent = `${words(Math.max(0, Date.now() - ahead - Number(age.dataset.since)))} ago`;
    }
  };
  const waiting = () => Number(document.querySelector("[data-waiting]")?.dataset.waiting ?? -1);
  const isOpen = () => document.querySelector("[data-state]")?.dataset.state === "waiting";
  // The result of a verification, which can end while the page is open.
  const finding = () => live?.querySelector("[data-says]")?.textContent ?? "";
  let before = waiting(), found = finding();
  const announce = () => {
    const result = finding();
    if (result && result !== found) said.textContent = result;
    found = result;
    const now = waiting();
    if (now < 0) return;
    document.title = now ? `(${now}) Inbox` : "Inbox";
    if (now !== before) said.textContent = document.querySelector("h1").textContent;
    before = now;
  };

  let busy = false, again = false, leaving = false;
  // The page of an answer comes only once its outcome is known: loading this one anew would lose it.
  addEventListener("submit", () => { leaving = true; });
  const regions = () => [...live.querySelectorAll(".scroll")];
  // Unchanged parts stay: a press that has begun on a button is not lost, and neither is a selection.
  const put = (into, parts) => {
    const old = [...into.childNodes];
    parts.forEach((part, place) => {
      const now = old[place];
      if (!now) into.append(part);
      else if (now.isEqualNode(part)) return;
      else if (part instanceof Element && now.cloneNode(false).isEqualNode(part.cloneNode(false))) put(now, [...part.childNodes]);
      else now.replaceWith(part);
    });
    old.slice(parts.length).forEach((part) => part.remove());
  };
  const renew = async () => {
    if (!live) return;
    if (busy) { again = true; return; }
    busy = true;
    try {
      const reply = await fetch(live.dataset.fragment, { redirect: "error" });
      if (reply.status === 401 && live.dataset.stays === undefined) return location.reload();
      // The content of the page may be old.
      if (!reply.ok) { lost.hidden = leaving; return; }
      const made = new DOMParser().parseFromString(await reply.text(), "text/html");
      const wasOpen = isOpen();
      const focused = live.contains(document.activeElement) ? document.activeElement.id : null;
      const sideways = regions().map((region) => region.scrollLeft);
      put(live, [...made.body.childNodes]);
      lost.hidden = true;
      regions().forEach((region, place) => { region.scrollLeft = sideways[place] ?? 0; });
      // A row that is not in the list any more leaves the focus to its table, so that keys still scroll it.
      if (focused !== null && !live.contains(document.activeElement)) {
        const next = document.getElementById(focused) ?? live.querySelector(".scroll") ?? document.getElementById("main");
        next.focus({ preventScroll: true });
      }
      // The buttons have no use any more.
      if (wasOpen && !isOpen() && !leaving && live.dataset.stays === undefined) return location.reload();
      count();
      announce();
    } catch {
      // The stream, or the next attempt, says when the broker is there again.
      lost.hidden = leaving;
    } finally {
      busy = false;
      if (again) { again = false; renew(); }
    }
  };

  let source = null, hears = false, later = 0;
  const close = () => { clearTimeout(later); source?.close(); hears = false; };
  const watch = () => {
    close();
    source = new EventSource(live.dataset.events ?? "/events");
    source.onmessage = () => { hears = true; lost.hidden = true; renew(); };
    source.onerror = () => {
      hears = false;
      // A page that asks by itself finds out whether the broker is there.
      if (live.dataset.every) renew(); else lost.hidden = false;
      if (source.readyState === EventSource.CLOSED) later = setTimeout(watch, 5000);
    };
  };
  if (live) {
    watch();
    // Without a stream the page asks while somebody sees it.
    if (live.dataset.every) setInterval(() => { if (!hears && !document.hidden) renew(); }, Number(live.dataset.every));
    // A browser has few connections to one host: a page that nobody sees needs none. The inbox shows its number in its title.
    document.addEventListener("visibilitychange", () => {
      if (live.dataset.fragment === "/fragment") return;
      close();
      if (!document.hidden) watch();
    });
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  // Keys move and never answer: a button takes a second press.
  const step = (by) => {
    const links = [...document.querySelectorAll(".question h2 a")];
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const next = links[Math.min(links.length - 1, Math.max(0, at + by))];
    next.focus({ preventScroll: true });
    next.closest(".question").scrollIntoView({ block: "nearest" });
  };
  const go = (id) => document.getElementById(id)?.focus();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest("input, textarea, select")) return;
    switch (event.key) {
      case "j": step(1); break;
      case "k": step(-1); break;
      case "a": go("approve"); break;
      case "d": go("deny"); break;
      case "u": document.getElementById("up")?.click(); break;
      default: return;
    }
    event.preventDefault();
  });

  count();
  setInterval(count, 1000);
})();
