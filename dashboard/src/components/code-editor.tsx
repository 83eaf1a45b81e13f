import { html } from '@codemirror/lang-html';
import { Input, useComputedColorScheme } from '@mantine/core';
import { EditorView, basicSetup } from 'codemirror';
import { useEffect, useRef } from 'react';

interface Props {
  label: string;
  description?: string;
  error?: string;
  value: string;
  onChange: (value: string) => void;
}

/** As the editor keeps it: its lines end the same way everywhere. */
function withPlainBreaks(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}

/** HTML, with its tags coloured. */
export default function CodeEditor({ label, description, error, value, onChange }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const first = useRef(value);
  const dark = useComputedColorScheme('light') === 'dark';
  useEffect(() => {
    if (!place.current) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
    const view = new EditorView({
      parent: place.current,
      doc: first.current,
      extensions: [
        EditorView.cspNonce.of(nonce),
        basicSetup,
        html(),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': label }),
        EditorView.theme(
          {
            '&': { minHeight: '240px', maxHeight: '560px', fontSize: '13px' },
            '.cm-scroller': { overflow: 'auto' },
            '.cm-content, .cm-gutter': { minHeight: '240px' },
          },
          { dark },
        ),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          first.current = update.state.doc.toString();
          changed.current(first.current);
        }),
      ],
    });
    editor.current = view;
    return () => view.destroy();
  }, [label, dark]);
  useEffect(() => {
    const view = editor.current;
    if (!view || view.state.doc.toString() === withPlainBreaks(value)) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
  }, [value]);
  return (
    <Input.Wrapper label={label} description={description} error={error} labelElement="div">
      <div
        ref={place}
        style={{
          border: '1px solid var(--mantine-color-default-border)',
          borderRadius: 8,
          overflow: 'hidden',
          background: dark ? '#1e1e1e' : '#fff',
        }}
      />
    </Input.Wrapper>
  );
}
