import { Code, Textarea } from '@mantine/core';
import { Unreadable, readJson, shownJson } from '../app/typed-json';
import { t } from '../text';
import { useTyped } from './typed';

/** Anything, as it is. */
export function Json({ value }: { value: unknown }) {
  return (
    <Code
      block
      tabIndex={0}
      style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere', maxHeight: 420, overflowY: 'auto' }}
    >
      {JSON.stringify(value, null, 2)}
    </Code>
  );
}

interface InputProps {
  label: string;
  description?: string;
  value: unknown;
  /** What the API says about it. */
  error?: string;
  rows?: number;
  /** What is handed on where nothing stands in the field. */
  nothing?: unknown;
  /** Told an {@link Unreadable} where it is no JSON: whoever sends it on looks with `isReadable` first. */
  onChange: (value: unknown) => void;
}

/** Any JSON, written by hand. */
export function JsonInput({ label, description, value, error, rows = 4, nothing, onChange }: InputProps) {
  const [text, setText] = useTyped(value, shownJson);
  const change = (next: string) => {
    const read = readJson(next, nothing);
    setText(next, read);
    onChange(read);
  };
  return (
    <Textarea
      label={label}
      description={description}
      value={text}
      error={value instanceof Unreadable ? t.json.unreadable(value.why) : error}
      onChange={(event) => change(event.currentTarget.value)}
      autosize
      minRows={rows}
      maxRows={24}
      spellCheck={false}
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
    />
  );
}
