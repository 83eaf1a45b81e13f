import { Text } from '@mantine/core';

/** A code that follows its name, dimmed. */
export function CodeName({ code }: { code: string }) {
  return (
    <>
      {' '}
      <Text span size="xs" c="dimmed" ff="monospace">
        {code}
      </Text>
    </>
  );
}
