import { useState } from 'react';

/**
 * State of a text field that holds a parsed value. The text stays as typed (`1.` is not a number yet) until the value changes
 * from outside the field.
 */
export function useTypedText(
  value: unknown,
  format: (value: unknown) => string,
): [string, (text: string, parsed: unknown) => void] {
  const [typed, setTyped] = useState({ text: format(value), value });
  const change = (text: string, parsed: unknown) => setTyped({ text, value: parsed });
  if (JSON.stringify(typed.value) === JSON.stringify(value)) return [typed.text, change];
  const changed = { text: format(value), value };
  setTyped(changed);
  return [changed.text, change];
}
