// Shows the exact times of a page in the zone of its reader, and calls as they come,
// and takes files that are dropped. Without this script times are in UTC, and say so, and what is new
// shows when the page is loaded again.
"use strict";
const inWords = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
// A day has no zone.
const dayInWords = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });
const dateInWords = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
function showTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (time.className === "day") time.textContent = dayInWords.format(at);
    else if (time.className === "date") time.textContent = dateInWords.format(at);
    else if (time.className === "exact") time.textContent = inWords.format(at);
    else time.title = inWords.format(at);
  }
}

// An input for a time has it in UTC and says so: here it has the reader's zone, and is sent in UTC.
function takeLocalTimes(within) {
  const minutes = (date) => date.toISOString().slice(0, 16);
  for (const input of within.querySelectorAll("input[data-utc]")) {
    if (input.value) {
      const at = new Date(input.value + "Z");
      input.value = minutes(new Date(at - at.getTimezoneOffset() * 60000));
    }
    for (const zone of input.labels[0].querySelectorAll(".zone")) zone.textContent = "(your time)";
    input.form.addEventListener("formdata", ({ formData }) => {
      // An input that is gone has left its name to another one.
      const local = input.isConnected && formData.get(input.name);
      if (local) formData.set(input.name, minutes(new Date(local)));
    });
  }
}
showTimes(document);
takeLocalTimes(document);

// The days of a page begin when the reader's do. The server learns how many minutes that is apart
// from UTC, and nothing else.
const zone = `stile-zone=${-new Date().getTimezoneOffset()}`;
if (!document.cookie.split("; ").includes(zone)) {
  document.cookie = `${zone}; path=/owner; samesite=lax; max-age=31536000`;
  if (document.querySelector("[data-days]") && document.cookie.includes(zone)) location.reload();
}

// What a form would do follows what its reader chooses. Without this script a button shows it.
// A list that grows keeps the rows that are there, so that nothing typed in them is lost.
function takeOver(page) {
  const focused = document.activeElement?.id;
  // If what the choices begin with changed meanwhile, no row means what it meant.
  const [choices, renewed] = [document, page].map((it) => it.querySelector("[data-renews]"));
  if (choices && renewed && choices.dataset.renews !== renewed.dataset.renews) {
    const fresh = document.importNode(renewed, true);
    choices.replaceWith(fresh);
    showTimes(fresh);
    takeLocalTimes(fresh);
  }
  for (const list of document.querySelectorAll("[data-grows]")) {
    const rows = page.getElementById(list.id)?.children ?? [];
    // A row for which the page has no more room stays, and carries what was chosen itself.
    const stays = (row) => page.getElementById(row.id) ||
      page.getElementById(row.id.replace("stream-of-", "carried-"));
    for (const row of [...list.children]) if (!stays(row)) row.remove();
    for (const row of [...rows]) {
      const shown = row.id.replace("carried-", "stream-of-");
      if (document.getElementById(row.id) || document.getElementById(shown)) continue;
      const added = document.importNode(row, true);
      list.append(added);
      takeLocalTimes(added);
    }
  }
  for (const part of document.querySelectorAll("[data-follows]")) {
    const fresh = page.getElementById(part.id);
    // What is not said any more of a row must not stand there as it was.
    if (part.closest("[data-grows]")) part.hidden = !fresh;
    if (!fresh) continue;
    part.innerHTML = fresh.innerHTML;
    showTimes(part);
  }
  // A row that was there has the choice that was typed for it in another field.
  for (const fresh of page.querySelectorAll("select[data-chosen]")) {
    const shown = document.getElementById(fresh.id);
    if (shown) shown.value = fresh.value;
  }
  if (focused) document.getElementById(focused)?.focus();
}
for (const form of document.querySelectorAll("form[data-follow]")) {
  const show = form.querySelector("button[value=show]:not([data-adds])");
  let asked = 0;
  show.hidden = true;
  async function follow() {
    const turn = ++asked;
    const body = new URLSearchParams(new FormData(form, show));
    const answer = await fetch(form.action, { method: "POST", body });
    if (!answer.ok || turn !== asked) return;
    takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
  }
  // What waits for a button beside it does nothing by itself: an arrow key changes a choice.
  form.addEventListener("change", (event) => {
    if (!event.target.matches("[data-waits]")) follow();
  });
  form.addEventListener("click", async (event) => {
    if (!event.target.matches("[data-adds]")) return;
    event.preventDefault();
    const known = new Set(form.querySelectorAll("[data-grows] > *"));
    await follow();
    const added = [...form.querySelectorAll("[data-grows] > *")].find((row) => !known.has(row));
    (added?.querySelector("input") ?? form.querySelector("[data-waits]"))?.focus();
  });
}

// On a narrow screen the navigation is one row that scrolls: the page that is shown is in sight.
document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "center" });

const MOST_SHOWN = 300;
const live = document.getElementById("live");
if (live) {
  const calls = document.querySelector("ol.calls");
  let count = 0;
  live.textContent = "New calls show here as they come.";
  new EventSource(live.dataset.live).addEventListener("calls", (event) => {
    const [number, html] = event.data.split(/ (.*)/s);
    const template = document.createElement("template");
    // The server escapes what is in it.
    template.innerHTML = html;
    showTimes(template.content);
    calls.prepend(template.content);
    while (calls.childElementCount > MOST_SHOWN) calls.lastElementChild.remove();
    document.querySelector("p.empty")?.remove();
    count += Number(number);
    live.textContent = `${count} since you loaded the page.`;
  });
}

// Files that are dropped on the form of the import page are sent as if they had been chosen.
const drop = document.querySelector("form[data-drop]");
if (drop) {
  const file = drop.elements[drop.dataset.drop];
  drop.querySelector(".drop-here").hidden = false;
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
    });
  }
  drop.addEventListener("drop", (event) => {
    if (event.dataTransfer.files.length === 0) return;
    file.files = event.dataTransfer.files;
    drop.requestSubmit();
  });
}

// How far an import is, until it ends.
const importing = document.querySelector("[data-progress]");
async function lookAtProgress() {
  const answer = await fetch(importing.dataset.progress);
  if (answer.status !== 200) return location.reload();
  importing.innerHTML = await answer.text();
  setTimeout(lookAtProgress, 1000);
}
if (importing) setTimeout(lookAtProgress, 1000);
