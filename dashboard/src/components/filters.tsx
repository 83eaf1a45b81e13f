import { NativeSelect, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { t } from '../text';

const DEBOUNCE_MS = 300;

interface SearchProps {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

/** Text filter that is stored in the URL; updates are debounced. */
export function SearchField({ label, value = '', onChange }: SearchProps) {
  const [text, setText] = useState(value);
  const [seen, setSeen] = useState(value);
  const [sent, setSent] = useState(value);
  if (value !== seen) {
    setSeen(value);
    // The URL changed for another reason, such as the back button or a link.
    if (value !== sent) {
      setText(value);
      setSent(value);
    }
  }
  useEffect(() => {
    if (text === sent) return;
    const timer = setTimeout(() => {
      setSent(text);
      onChange(text === '' ? undefined : text);
    }, DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text, sent, onChange]);
  return (
    <TextInput type="search" label={label} value={text} onChange={(event) => setText(event.currentTarget.value)} />
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T | undefined;
  options: ReadonlyArray<T>;
  name?: (value: T) => string;
  onChange: (value: T | undefined) => void;
}

/** Filter with a fixed list of options, or any. */
export function Choice<T extends string>({ label, value, options, name = (each) => each, onChange }: ChoiceProps<T>) {
  return (
    <NativeSelect
      label={label}
      value={value ?? ''}
      onChange={(event) => onChange(options.find((each) => each === event.currentTarget.value))}
    >
      <option value="">{t.any}</option>
      {options.map((each) => (
        <option key={each} value={each}>
          {name(each)}
        </option>
      ))}
    </NativeSelect>
  );
}
