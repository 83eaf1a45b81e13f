import { Code, Textarea } from '@mantine/core';
import { useState } from 'react';
import { t } from '../text';

/** Anything, as it is. */
export function Json({ value }: { value: unknown }) {
  return (
    <Code block tabIndex={0} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere', maxHeight: 420, overflowY: 'auto' }}>
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
  onChange: (value: unknown) => void;
}

/** Any JSON, written by hand; only what can be read is handed on. */
export function JsonInput({ label, description, value, error, rows = 4, onChange }: InputProps) {
  const [text, setText] = useState(() => (value === undefined ? '' : JSON.stringify(value, null, 2)));
  const [unreadable, setUnreadable] = useState<string | null>(null);
  const change = (next: string) => {
    setText(next);
    if (next.trim() === '') {
      setUnreadable(null);
      return onChange(undefined);
    }
    try {
      onChange(JSON.parse(next));
      setUnreadable(null);
    } catch (cause) {
      setUnreadable(t.json.unreadable(cause instanceof Error ? cause.message : ''));
    }
  };
  return (
    <Textarea
      label={label}
      description={description}
      value={text}
      error={unreadable ?? error}
      onChange={(event) => change(event.currentTarget.value)}
      autosize
      minRows={rows}
      maxRows={24}
      spellCheck={false}
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
    />
  );
}
