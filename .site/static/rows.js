// A field over tables hides the rows that lack one of its words; on a phone long rows become cards.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table")) {
    const heads = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    const rows = [...table.querySelectorAll("tbody tr")];
    const longest = Math.max(0, ...rows.map((row) => row.textContent.length));
    if (longest < 90 || heads.length < 3) continue;
    table.classList.add("cards");
    for (const row of rows) [...row.cells].forEach((cell, i) => cell.setAttribute("data-head", heads[i] ?? ""));
  }
  for (const field of document.querySelectorAll("input.rows")) {
    const rows = [...document.querySelectorAll("article tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const [row, text] of rows) row.classList.toggle("away", !words.every((word) => text.includes(word)));
      for (const section of document.querySelectorAll("article section section")) // without a row that is left
        section.classList.toggle("away", words.length > 0 && !section.querySelector("tbody tr:not(.away)"));
    };
    field.addEventListener("input", show);
    if (location.hash.startsWith("#rows=")) field.value = decodeURIComponent(location.hash.slice(6));
    show();
  }
});
