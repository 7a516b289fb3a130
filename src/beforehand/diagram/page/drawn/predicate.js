// The `where` language of `beforehand.predicate`, for a file that has nobody to ask. Its meaning is that of the Python
// one (a test compares them), but for patterns, which are those of the browser.
import { ApiError } from "../modules/errors.js";
import { whole } from "../modules/text.js";

const LENGTH_MAX = 10000;
const DEPTH_MAX = 50;
const FIELDS = ["name", "process", "execution", "kind", "time"];
const TOKEN = /\s+|(\()|(\))|(!=|[=~<>])|([\p{L}\p{M}\p{N}_\-.:/+@#]+)|("(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*')/uy;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const TIME = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9})\d*)?)?(?:([Zz])|([+-])(\d\d):(\d\d))$/;

const wrong = (text) => new ApiError(400, `not a search: ${text}`);

// Nanoseconds since 1970, of an integer or RFC 3339; null if it is neither.
export const nanoseconds = (text) => {
  if (/^-?\d{1,19}(?: ns)?$/.test(text)) return BigInt(text.replace(" ns", ""));
  const match = TIME.exec(text);
  if (!match) return null;
  const [, year, month, day, hour, minute, second = "0", fraction = "", , sign, hours = "0", minutes = "0"] = match;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  const away = (Number(hours) * 60 + Number(minutes)) * (sign === "-" ? -1 : 1);
  const seconds = BigInt(Math.round(date.getTime() / 1000)) + BigInt(Number(hour) * 3600 + (Number(minute) - away) * 60 + Number(second));
  return seconds * 10n ** 9n + BigInt(fraction.padEnd(9, "0"));
};

const tokensOf = (text) => {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw wrong(`quote the text with ${text[at]} in it`);
    const [, open, close, operator, word, quoted] = match;
    if (open) tokens.push({ kind: "(", text: open, at });
    else if (close) tokens.push({ kind: ")", text: close, at });
    else if (operator) tokens.push({ kind: "operator", text: operator, at });
    else if (quoted) tokens.push({ kind: "quoted", text: quoted.slice(1, -1).replace(/\\([\\"'])/g, "$1"), at });
    else if (word && /^(?:and|or|not)$/i.test(word)) tokens.push({ kind: word.toLowerCase(), text: word, at });
    else if (word) tokens.push({ kind: "word", text: word, at, end: TOKEN.lastIndex });
  }
  return [...tokens, { kind: "end", text: "the end", at: text.length }];
};

const patternOf = (text) => {
  const flags = /^\(\?([ims]+)\)/.exec(text);
  try {
    return new RegExp(flags ? text.slice(flags[0].length) : text, `u${flags ? [...new Set(flags[1])].join("") : ""}`);
  } catch (error) {
    throw wrong(error.message);
  }
};

const compared = (text, operator, value, isNumber) => {
  if (text === null || text === undefined) return operator === "!=";
  if (operator === "=") return text === value;
  if (operator === "!=") return text !== value;
  if (isNumber) {
    const number = NUMBER.test(text.trim()) ? Number(text) : NaN;
    return Number.isFinite(number) && (operator === "<" ? number < Number(value) : number > Number(value));
  }
  const [one, other] = [[...text], [...value]]; // By code points, as elsewhere; JavaScript compares halves of them.
  const at = one.findIndex((character, place) => character !== other[place]);
  const before = at < 0 ? one.length < other.length : at < other.length && one[at].codePointAt(0) < other[at].codePointAt(0);
  return operator === "<" ? before : !before && text !== value;
};

const comparison = (field, key, operator, token) => {
  if (field === "kind" && operator !== "=" && operator !== "!=") throw wrong("kind knows = and != only");
  if (field === "time") {
    if (operator === "~") throw wrong("time knows no ~");
    const wanted = nanoseconds(token.text);
    if (wanted === null) throw wrong(`${token.text} is no time: give RFC 3339 or nanoseconds`);
    return ({ ns }) => {
      if (ns === null) return operator === "!=";
      return { "=": ns === wanted, "!=": ns !== wanted, "<": ns < wanted, ">": ns > wanted }[operator];
    };
  }
  const read = field === "attributes" ? (one) => one.attributes.get(whole(key)) : (one) => one[field];
  if (operator === "~") {
    const pattern = patternOf(token.text);
    return (one) => pattern.test(read(one) ?? "") && read(one) !== undefined && read(one) !== null;
  }
  const isNumber = token.kind === "word" && NUMBER.test(token.text);
  const wanted = whole(token.text); // The texts of a file are made visible when it is written.
  return (one) => compared(read(one), operator, wanted, isNumber);
};

class Reader {
  constructor(text) {
    this.tokens = tokensOf(text);
    this.next = 0;
    this.depth = 0;
  }

  take() {
    return this.tokens[this.next++];
  }

  any() {
    const terms = [this.all()];
    while (this.tokens[this.next].kind === "or") {
      this.take();
      terms.push(this.all());
    }
    return terms.length === 1 ? terms[0] : (one) => terms.some((holds) => holds(one));
  }

  all() {
    const factors = [this.factor()];
    while (this.tokens[this.next].kind === "and") {
      this.take();
      factors.push(this.factor());
    }
    return factors.length === 1 ? factors[0] : (one) => factors.every((holds) => holds(one));
  }

  factor() {
    const token = this.take();
    if (token.kind === "not" || token.kind === "(") {
      this.depth += 1;
      if (this.depth > DEPTH_MAX) throw wrong(`nested deeper than ${DEPTH_MAX}`);
      const inner = token.kind === "not" ? this.factor() : this.any();
      if (token.kind === "(" && this.take().kind !== ")") throw wrong("( is never closed");
      this.depth -= 1;
      return token.kind === "not" ? (one) => !inner(one) : inner;
    }
    if (token.kind !== "word") throw wrong(`a field is expected, not ${token.text}`);
    const [field, key] = this.field(token);
    const operator = this.take();
    if (operator.kind !== "operator") throw wrong("one of = != ~ < > is expected after the field");
    const value = this.take();
    if (value.kind !== "word" && value.kind !== "quoted") throw wrong(`a value is expected, not ${value.text}`);
    return comparison(field, key, operator.text, value);
  }

  field(token) {
    const dot = token.text.indexOf(".");
    const field = dot < 0 ? token.text : token.text.slice(0, dot);
    if (field !== "attributes") {
      if (FIELDS.includes(token.text)) return [token.text, null];
      throw wrong(`there is no field ${token.text}: there are ${FIELDS.join(", ")} and attributes.KEY`);
    }
    let key = dot < 0 ? "" : token.text.slice(dot + 1);
    if (!key && dot >= 0 && this.tokens[this.next].kind === "quoted" && this.tokens[this.next].at === token.end) key = this.take().text;
    else if (!key) throw wrong("attributes needs a key: attributes.level");
    return [field, key];
  }
}

// Whether an event {name, process, execution, kind, ns, attributes: Map} is meant. Throws what is wrong.
export const predicateOf = (text) => {
  if (text.length > LENGTH_MAX) throw wrong("it is too long");
  const reader = new Reader(text);
  const holds = reader.any();
  const rest = reader.take();
  if (rest.kind !== "end") throw wrong(`and, or, ) or the end is expected, not ${rest.text}`);
  return holds;
};

// What somebody typed: a predicate if it reads as one; else words, to be found in all that an event says.
export const searchOf = (text) => {
  try {
    return predicateOf(text);
  } catch (error) {
    if (/^[\s(]*(?:not\s+)?(?:name|process|execution|kind|time|attributes\.\S+)\s*(?:!=|[=~<>])/.test(text)) throw error;
    const wanted = whole(text).toLowerCase();
    return (one) => one.text.includes(wanted);
  }
};
