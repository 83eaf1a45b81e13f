import { Code, Textarea } from '@mantine/core';
import { Unreadable, readJson, formatJson } from '../app/typed-json';
import { t } from '../text';
import { useTypedText } from './typed';

/** Read-only view of a value as formatted JSON. */
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
  /** Error message of the API. */
  error?: string;
  rows?: number;
  /** Value of an empty field. */
  emptyValue?: unknown;
  /** Receives {@link Unreadable} if the text does not parse. Check with `isReadable` before sending. */
  onChange: (value: unknown) => void;
}

/** Text field for JSON. */
export function JsonInput({ label, description, value, error, rows = 4, emptyValue, onChange }: InputProps) {
  const [text, setText] = useTypedText(value, formatJson);
  const change = (next: string) => {
    const parsed = readJson(next, emptyValue);
    setText(next, parsed);
    onChange(parsed);
  };
  return (
    <Textarea
      label={label}
      description={description}
      value={text}
      error={value instanceof Unreadable ? t.json.unreadable(value.reason) : error}
      onChange={(event) => change(event.currentTarget.value)}
      autosize
      minRows={rows}
      maxRows={24}
      spellCheck={false}
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
    />
  );
}
