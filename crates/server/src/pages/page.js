// Shows the exact times of a page in the zone of its reader. Without this script they are in UTC,
// and say so.
"use strict";
const inWords = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[datetime]")) {
  const exact = inWords.format(new Date(time.dateTime));
  const beside = time.nextElementSibling;
  if (beside && beside.className === "exact") beside.textContent = exact;
  time.title = exact;
}
