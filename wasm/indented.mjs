// JSON as the commands print it: the same text with two spaces per depth. Numbers stay as they are
// written, which JSON.parse and JSON.stringify would not promise.
const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^[\]{},:"\s]+/g;

export function indented(text) {
  const out = [];
  let depth = 0;
  let before = "";
  const newLine = () => out.push("\n", "  ".repeat(depth));
  for (const [token] of text.matchAll(TOKENS)) {
    const closes = token === "]" || token === "}";
    const opened = before === "[" || before === "{";
    if (closes) --depth;
    if (closes ? !opened : opened || before === ",") newLine();
    out.push(token === ":" ? ": " : token);
    if (token === "[" || token === "{") ++depth;
    before = token;
  }
  return out.join("");
}
