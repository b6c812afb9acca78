// Where the core comes from: it lies in the packed page, gzip in base64; the development server
// hands it out as a file.

async function unpacked(base64: string): Promise<ArrayBuffer> {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i); // ten times as fast as from()
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

export async function loadModule(): Promise<WebAssembly.Module> {
  const packed = document.getElementById('core');
  if (packed) return WebAssembly.compile(await unpacked(packed.textContent ?? ''));
  const response = await fetch('core.wasm');
  if (!response.ok) throw new Error(`core.wasm: ${await response.text()}`);
  return WebAssembly.compile(await response.arrayBuffer());
}
