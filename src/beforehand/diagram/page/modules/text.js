// Text from strangers made visible, and numbers and times made short. The rules are those of diagram/text.py:
// controls get pictures, characters that reorder or hide get their number, and length is cut.

const CONTROL = /[\u0000-\u001f]/g;
const HIDDEN = /(?![\u200c\u200d])[\p{Cf}\p{Zl}\p{Zp}\u0080-\u009f]/gu;
const BROKEN = /\p{Cs}|\p{Noncharacter_Code_Point}/gu;
const MARKS = /(\p{Mn}|\p{Me}){4,}/gu; // More than three would climb into the neighbouring lane.

export const cut = (text, limit) => {
  if (text.length <= limit) return text;
  const kept = text.slice(0, limit - 1);
  return `${/[\ud800-\udbff]$/.test(kept) ? kept.slice(0, -1) : kept}…`;
};

export const visible = (text, limit = 500) => {
  const shown = cut(String(text), limit);
  if (/^[\x20-\x7e]*$/.test(shown)) return shown; // Nearly all names, and a drawing asks for thousands.
  return shown
    .replace(CONTROL, (one) => String.fromCodePoint(0x2400 + one.codePointAt(0)))
    .replace(/\u007f/g, "␡")
    .replace(HIDDEN, (one) => `⟨U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)
    .replace(BROKEN, "\ufffd")
    .replace(MARKS, (run) => [...run].slice(0, 3).join(""));
};

export const whole = (text) => visible(text, Infinity);

export const count = (number) => (number === null || number === undefined ? "?" : Number(number).toLocaleString("en"));

export const short = (number) => {
  if (number < 1000) return String(number);
  const [size, letter] = number < 1e6 ? [1e3, "k"] : [1e6, "M"];
  return `${Number((number / size).toPrecision(3))}${letter}`;
};

export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const LONG = 120e9; // From here on hours, minutes and seconds read better than seconds.

// A duration in ns with enough digits to tell it from one that differs by `step`.
export const elapsed = (ns, step = 0) => {
  if (Math.abs(ns) < 0.5 && step >= 0) return "0";
  const size = Math.abs(ns);
  const sign = ns < 0 ? "−" : "+";
  if (size >= LONG && (step === 0 || step >= 1e9)) return sign + hours(Math.round(size / 1e9));
  const [unit, length] = UNITS.find(([, one]) => size >= one) ?? UNITS.at(-1);
  const digits = step ? Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / length) - 1e-9))) : 3;
  return `${sign}${Number((size / length).toFixed(digits))} ${unit}`;
};

const hours = (seconds) => {
  const [days, rest] = [Math.floor(seconds / 86400), seconds % 86400];
  const two = (number) => String(number).padStart(2, "0");
  const clockwise = `${Math.floor(rest / 3600)}:${two(Math.floor((rest % 3600) / 60))}:${two(rest % 60)}`;
  return days ? `${days} d ${clockwise}` : clockwise;
};

const DATED = 86400n * 10n ** 9n * 3650n; // Smaller numbers are no dates, but counts from some start.

// RFC 3339 with as many digits as there are, from a decimal string or BigInt of ns.
export const clock = (ns) => {
  const time = BigInt(ns);
  if (time < DATED || time > 253402300799n * 10n ** 9n) return `${time} ns`;
  const seconds = time / 10n ** 9n;
  const rest = String(time % 10n ** 9n).padStart(9, "0").replace(/0+$/, "");
  return new Date(Number(seconds) * 1000).toISOString().replace(/\.\d+Z$/, `${rest ? `.${rest}` : ""}Z`);
};
