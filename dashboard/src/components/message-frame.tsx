import { useEffect, useRef } from 'react';

interface Props {
  title: string;
  html: string;
  width: number | '100%';
  dark: boolean;
}

/**
 * Renders a message in a sandboxed frame with an opaque origin: its content cannot access this page, and its scripts do not run.
 */
export function MessageFrame({ title, html, width, dark }: Props) {
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const show = () => frame.current?.contentWindow?.postMessage({ html, dark }, '*');
    const onReady = (event: MessageEvent) => {
      if (event.source === frame.current?.contentWindow && event.data === 'ready') show();
    };
    addEventListener('message', onReady);
    show();
    return () => removeEventListener('message', onReady);
  }, [html, dark]);
  return (
    <iframe
      ref={frame}
      title={title}
      src="/preview.html"
      sandbox="allow-scripts"
      referrerPolicy="no-referrer"
      style={{
        width,
        maxWidth: '100%',
        height: 560,
        border: '1px solid var(--mantine-color-default-border)',
        borderRadius: 8,
        colorScheme: dark ? 'dark' : 'light',
        background: dark ? '#121212' : '#fff',
      }}
    />
  );
}
