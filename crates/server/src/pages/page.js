// Shows the exact times of a page in the zone of its reader, and calls as they come. Without this
// script times are in UTC, and say so, and calls show when the page is loaded again.
"use strict";
const inWords = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
function showTimes(within) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const exact = inWords.format(new Date(time.dateTime));
    const beside = time.nextElementSibling;
    if (beside && beside.className === "exact") beside.textContent = exact;
    time.title = exact;
  }
}
showTimes(document);

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
