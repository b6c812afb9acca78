// The command that asks the same question: a flag is a key of the request with - instead of _.
import type { Request } from '../core/core';

const flagsOf = (given: Request) =>
  Object.entries(given)
    .filter(([, value]) => value !== undefined && value !== false && value !== '')
    .map(([key, value]) => {
      const flag = ` --${key.replaceAll('_', '-')}`;
      return value === true ? flag : `${flag} ${Array.isArray(value) ? value.join(',') : String(value)}`;
    })
    .join('');

export function commandOf(method: string, request: Request): string {
  const { topic, given, ...rest } = request;
  return method === 'explain'
    ? `tessera explain ${String(topic)}${flagsOf((given ?? {}) as Request)}`
    : `tessera show ${method}${flagsOf(rest)}`;
}
