// A click on the head of a column sorts its table by that column, a second click the other way round.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[head.cellIndex].dataset.value ?? row.cells[head.cellIndex].textContent;
    const compare = (a, b) => {
      const [x, y] = [Number(key(a)), Number(key(b))];
      if (Number.isNaN(x) || Number.isNaN(y)) {
        return (Number.isNaN(x) - Number.isNaN(y)) || key(a).localeCompare(key(b), undefined, { numeric: true });
      }
      return down ? y - x : x - y;
    };
    const rows = [...body.rows].sort(compare);
    if (down && rows.every(row => Number.isNaN(Number(key(row))))) rows.reverse();
    body.append(...rows);
  });
}
// Paper has all that is folded on the screen.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
