import { Alert, Anchor, type CSSVariablesResolver, createTheme } from '@mantine/core';

/** Colours with a contrast of at least 4.5 : 1 against their background. */
export const theme = createTheme({
  primaryColor: 'ember',
  primaryShade: { light: 8, dark: 8 },
  colors: {
    ember: [
      '#fff1eb',
      '#ffe0d4',
      '#ffbfa7',
      '#ff9c77',
      '#fb7d4f',
      '#f16b38',
      '#d9541f',
      '#c2410c',
      '#a93a0d',
      '#8a2f0b',
    ],
  },
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    // The border has the alert's colour; the title has the text colour, for contrast.
    Alert: Alert.extend({ styles: { title: { color: 'var(--mantine-color-text)' } } }),
    Anchor: Anchor.extend({ defaultProps: { inherit: true } }),
  },
});

export const colours: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-dimmed': 'var(--mantine-color-gray-7)',
    '--mantine-color-placeholder': 'var(--mantine-color-gray-7)',
    '--mantine-color-error': 'var(--mantine-color-red-9)',
    '--mantine-color-anchor': 'var(--mantine-color-ember-8)',
  },
  dark: {
    '--mantine-color-dimmed': 'var(--mantine-color-dark-0)',
    '--mantine-color-placeholder': 'var(--mantine-color-dark-1)',
    '--mantine-color-error': 'var(--mantine-color-red-4)',
    '--mantine-color-anchor': 'var(--mantine-color-ember-3)',
  },
});
