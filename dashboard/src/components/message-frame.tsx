import { useEffect, useRef } from 'react';

interface Props {
  title: string;
  html: string;
  width: number | '100%';
  dark: boolean;
}

/**
 * A message as it looks. The frame has no origin: whatever the message holds sees nothing of this page, and no script of
 * it runs.
 */
export function MessageFrame({ title, html, width, dark }: Props) {
  const frame = useRef<HTMLIFrameElement>(null);
  useEffect(() => {
    const show = () => frame.current?.contentWindow?.postMessage({ html, dark }, '*');
    const hear = (event: MessageEvent) => {
      if (event.source === frame.current?.contentWindow && event.data === 'ready') show();
    };
    addEventListener('message', hear);
    show();
    return () => removeEventListener('message', hear);
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
