"use strict";
(() => {
  // Tables that can be sorted get buttons here, not in the page: without this script there is nothing to press.
  const FILTER_FROM = 12;

  const compare = (one, other) => {
    // Nanoseconds since 1970 are more than a plain number holds.
    if ([one, other].every((value) => /^-?\d+$/.test(value))) {
      const [first, second] = [BigInt(one), BigInt(other)];
      return first < second ? -1 : first > second ? 1 : 0;
    }
    const numbers = [Number(one), Number(other)];
    if (numbers.every((number) => !Number.isNaN(number))) return numbers[0] - numbers[1];
    return one.localeCompare(other, "en", { numeric: true });
  };

  const sort = (table, column, ascending) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, position) => {
      const cell = row.cells[column];
      return { row, position, value: cell.dataset.value ?? null };
    });
    rows.sort((one, other) => {
      // What is not known comes last, whichever way.
      if (one.value === null || other.value === null) return (one.value === null) - (other.value === null);
      const order = compare(one.value, other.value);
      return (ascending ? order : -order) || one.position - other.position;
    });
    body.append(...rows.map(({ row }) => row));
    [...table.tHead.rows[0].cells].forEach((head, position) => {
      head.setAttribute("aria-sort", position !== column ? "none" : ascending ? "ascending" : "descending");
    });
  };

  const makeSortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => {
        const current = head.getAttribute("aria-sort");
        // Counts are asked for from the largest, names from the first.
        const first = !head.classList.contains("numeric");
        sort(table, column, current === "ascending" ? false : current === "descending" ? true : first);
      });
      head.textContent = "";
      head.append(button);
      head.setAttribute("aria-sort", "none");
    });
  };

  const makeFilter = (table) => {
    const label = document.createElement("label");
    label.className = "filter";
    label.textContent = "Show only rows with ";
    const input = document.createElement("input");
    input.type = "search";
    input.autocomplete = "off";
    label.append(input);
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.closest(".scroll").before(label);
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    makeSortable(table);
    if (table.tBodies[0].rows.length >= FILTER_FROM) makeFilter(table);
  }

  // A link to a folded item opens it.
  const openTarget = () => {
    const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  // Paper does not unfold.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const item of folded) item.open = true;
  });
  addEventListener("afterprint", () => {
    for (const item of folded) item.open = false;
  });

  // Show in the contents which section is being read.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) seen.add(entry.target.id);
        else seen.delete(entry.target.id);
      }
      const current = [...links.keys()].find((id) => seen.has(id));
      for (const [id, link] of links) {
        if (id === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-20% 0px -60% 0px" },
  );
  for (const id of links.keys()) watcher.observe(document.getElementById(id));
})();
