// Turns values of the documents into short texts: ages, counts, times.

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** Formats a duration in milliseconds with its largest unit: `4 s`, `14 min`. */
export function duration(millis) {
  if (millis === undefined || millis === null) return "–";
  if (millis < 1000) return "0 s";
  const seconds = Math.floor(millis / 1000);
  const [unit, size] = UNITS.find(([, size]) => seconds >= size);
  return `${Math.floor(seconds / size)} ${unit}`;
}

/** Formats an age that was measured when the document was made: it grows until the next one. */
export function ago(millis, loaded) {
  if (millis === undefined || millis === null) return "–";
  return `${duration(millis + (performance.now() - loaded))} ago`;
}

/** Formats the time since a timestamp. */
export function since(text) {
  const at = Date.parse(text);
  return Number.isNaN(at) ? "–" : `${duration(Math.max(0, Date.now() - at))} ago`;
}

/** Formats the time until a timestamp, or since it if it has passed. */
export function until(text) {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return "–";
  return at > Date.now() ? `in ${duration(at - Date.now())}` : `${duration(Date.now() - at)} ago`;
}

/** Formats a number with separators. */
export function count(number) {
  return Number(number ?? 0).toLocaleString("en");
}

/** Formats a number with its noun: `1 endpoint`, `2 endpoints`. */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Formats the time of day of a timestamp. */
export function clock(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "–" : at.toLocaleTimeString("en-GB", { hour12: false });
}

/** Returns the name of an object as its kind and its namespaced name. */
export function objectName(object) {
  if (!object) return "";
  const name = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  return [object.kind, name].filter(Boolean).join(" ");
}

/** Quotes a word for a POSIX shell where it needs it. */
export function quote(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
