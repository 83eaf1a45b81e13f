import { useState } from 'react';

/**
 * The text of a field that a value is read out of. It stays as it is typed (`1.` is no number yet) until the value becomes
 * another than this field itself has handed on.
 */
export function useTyped(
  value: unknown,
  shown: (value: unknown) => string,
): [string, (text: string, handedOn: unknown) => void] {
  const [typed, setTyped] = useState({ text: shown(value), value });
  if (JSON.stringify(typed.value) === JSON.stringify(value))
    return [typed.text, (text, handedOn) => setTyped({ text, value: handedOn })];
  const anew = { text: shown(value), value };
  setTyped(anew);
  return [anew.text, (text, handedOn) => setTyped({ text, value: handedOn })];
}
