// Functions that all files of the page use; those that the report uses too are in draw.js.
export const whole = (n) => n.toLocaleString("en");
export const count = (n, one, many) => `${whole(n)} ${n === 1 ? one : many}`;

export function ago(seconds) {
  if (seconds === null) return "never";
  if (seconds < 1.5) return "now";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= 1.5 * size) return `${Math.round(seconds / size)} ${unit}`;
  return `${Math.round(seconds)} s`;
}
// The time of the node with its zone, if it has one; otherwise the local time of the alarm.
export function moment(event) {
  const text = event.time === null || event.time === undefined ? "" : String(event.time);
  if (/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text)) return text.slice(5, 19).replace("T", " ") + text.slice(19).replace(/^[.,]\d+/, "").replace("Z", " UTC").replace(/^[+-]/, " $&");
  const number = text.trim() ? Number(text) : NaN, unit = [1, 1e3, 1e6, 1e9].find((u) => number >= 3.2e8 * u && number < 4.1e9 * u);
  if (unit) return new Date(number / unit * 1000).toISOString().slice(5, 19).replace("T", " ") + " UTC";
  return text || new Date(event.at * 1000).toLocaleTimeString("en-GB");
}
export async function ask(path, values) {
  const answer = await fetch(path + "?" + new URLSearchParams(values));
  return answer.ok ? answer.json() : null;
}
