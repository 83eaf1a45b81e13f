import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { useState } from 'react';
import { t } from '../text';

export interface Draft<T> {
  value: T;
  isDirty: boolean;
  set: (change: Partial<T>) => void;
  /** What is stored now: nothing is unsaved any more. */
  settle: (stored: T) => void;
}

/** What somebody is editing. */
export function useDraft<T extends object>(stored: T): Draft<T> {
  const [base, setBase] = useState(stored);
  const [value, setValue] = useState(stored);
  return {
    value,
    isDirty: JSON.stringify(value) !== JSON.stringify(base),
    set: (change) => setValue((before) => ({ ...before, ...change })),
    settle(next) {
      setBase(next);
      setValue(next);
    },
  };
}

/** Asks before unsaved changes are left behind. */
export function KeepChanges({ when }: { when: boolean }) {
  const blocker = useBlocker({ shouldBlockFn: () => when, enableBeforeUnload: () => when, withResolver: true });
  return (
    <Modal opened={blocker.status === 'blocked'} onClose={() => blocker.reset?.()} title={t.draft.title} closeButtonProps={{ 'aria-label': t.close }}>
      <Stack>
        <Text size="sm">{t.draft.text}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={() => blocker.proceed?.()}>
            {t.draft.leave}
          </Button>
          <Button onClick={() => blocker.reset?.()}>{t.draft.stay}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
