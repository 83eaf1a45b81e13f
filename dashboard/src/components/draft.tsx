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
  return <LeaveQuestion opened={blocker.status === 'blocked'} onLeave={() => blocker.proceed?.()} onStay={() => blocker.reset?.()} />;
}

export function LeaveQuestion({ opened, onLeave, onStay }: { opened: boolean; onLeave: () => void; onStay: () => void }) {
  return (
    <Modal opened={opened} onClose={onStay} title={t.draft.title} closeButtonProps={{ 'aria-label': t.close }}>
      <Stack>
        <Text size="sm">{t.draft.text}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onLeave}>
            {t.draft.leave}
          </Button>
          <Button onClick={onStay}>{t.draft.stay}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
