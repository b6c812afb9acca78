// The C++ that asks the same question: the library takes the keys that the page sends.
import type { Request } from '../core/core';

function literal(value: unknown): string {
  if (Array.isArray(value)) return `tessera::Json::array({${value.map(literal).join(', ')}})`;
  if (value !== null && typeof value === 'object') {
    const pairs = Object.entries(value).map(([key, inner]) => `{"${key}", ${literal(inner)}}`);
    return pairs.length > 0 ? `{${pairs.join(', ')}}` : 'tessera::Json::object()';
  }
  return JSON.stringify(value);
}

export function cppOf(method: string, request: Request): string {
  const { topic, given } = request;
  if (method !== 'explain' || typeof topic !== 'string') {
    return `tessera::ask("${method}", ${literal(request)})`;
  }
  return `tessera::explain("${topic}"${given ? `, ${literal(given)}` : ''})`;
}
