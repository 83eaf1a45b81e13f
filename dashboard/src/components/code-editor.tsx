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

/** Converts line endings to LF, as the editor does. */
function normalizeLineEndings(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}

/** HTML editor with syntax highlighting. */
export default function CodeEditor({ label, description, error, value, onChange }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const first = useRef(value);
  const dark = useComputedColorScheme('light') === 'dark';
  useEffect(() => {
    if (!container.current) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';
    const view = new EditorView({
      parent: container.current,
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
    if (!view || view.state.doc.toString() === normalizeLineEndings(value)) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
  }, [value]);
  return (
    <Input.Wrapper label={label} description={description} error={error} labelElement="div">
      <div
        ref={container}
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
