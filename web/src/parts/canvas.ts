// What all canvases share. Both parts keep the browser from working out styles and layout while a
// picture is drawn, which costs more than the drawing.

const kFont = '12px system-ui, sans-serif';
const kDrawn = new WeakSet<HTMLCanvasElement>();

// The canvas at this size in pixels of the page, empty. Resized only when it must be: that takes its memory
// anew, and a font, which makes the browser look at the style sheet.
export function sheetOf(canvas: HTMLCanvasElement, width: number, height: number) {
  const context = canvas.getContext('2d');
  if (!context || width <= 0) return undefined;
  const scale = globalThis.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width === wide && canvas.height === high && kDrawn.has(canvas)) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide, high);
  } else {
    [canvas.width, canvas.height] = [wide, high];
    kDrawn.add(canvas);
    context.font = kFont;
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.setLineDash([]);
  context.lineWidth = 1;
  return context;
}

// The colours of a theme by their names in the style sheet.
let known = new Map<string, string>();
let knownOf = '';
export function color(name: string): string {
  const theme = document.documentElement.dataset.theme ?? '';
  if (theme !== knownOf) known = new Map();
  knownOf = theme;
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || '#888';
    known.set(name, value);
  }
  return value;
}
