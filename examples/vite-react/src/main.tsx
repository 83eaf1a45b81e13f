import type { WebOptions } from '@rekindle/web';
import { RekindleProvider } from '@rekindle/web/react';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Shop } from './shop';

const { VITE_REKINDLE_URL, VITE_REKINDLE_PROJECT_ID, VITE_REKINDLE_PUBLIC_KEY } = import.meta.env as Record<
  string,
  string
>;

const options: WebOptions = {
  projectId: VITE_REKINDLE_PROJECT_ID ?? '',
  apiKey: VITE_REKINDLE_PUBLIC_KEY ?? '',
  apiUrl: VITE_REKINDLE_URL,
  push: { enabled: true },
};

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <RekindleProvider options={options}>
      <Shop />
    </RekindleProvider>
  </StrictMode>,
);
