// Numbers and ranks as people read them.

export function duration(ms) {
  if (ms === null || ms === undefined) return "not known";
  // As the service's own texts have it: no more than was measured.
  if (ms >= 60000) return `${Math.floor(ms / 60000)} min ${String(Math.floor(ms % 60000 / 1000)).padStart(2, "0")} s`;
  if (ms >= 1000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  return `${Number(ms.toPrecision(3))} ms`;
}

// Of what is known; null: nothing is.
export function quantile(values, part) {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  return sorted.length === 0 ? null : sorted[Math.floor(part * (sorted.length - 1))];
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

export function count(n, singular, plural) {
  return `${n.toLocaleString("en")} ${n === 1 ? singular : plural || `${singular}s`}`;
}

// "ranks 0-2, 4"; of many only how many.
export function ranks(list) {
  const sorted = [...new Set(list)].sort((a, b) => a - b), runs = [], runsMax = 3;
  for (const rank of sorted) {
    const last = runs.at(-1);
    if (last && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  if (runs.length > runsMax) return count(sorted.length, "rank");
  const text = runs.map(([from, to]) => from === to ? `${from}` : to === from + 1 ? `${from}, ${to}` : `${from}-${to}`).join(", ");
  return `${sorted.length === 1 ? "rank" : "ranks"} ${text}`;
}

export const isOpen = (verdict) => verdict.state === "suspected" || verdict.state === "confirmed";
