import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { useState } from 'react';
import { changesOf, settled } from '../app/draft';
import { keepIdentities } from '../app/identity';
import { t } from '../text';

export interface Draft<T> {
  value: T;
  /** As it was when the editing began, or when it was saved last. */
  base: T;
  /** What of it is not saved yet. */
  changes: Partial<T>;
  isDirty: boolean;
  set: (change: Partial<T>) => void;
  /** What was sent is stored. What somebody typed after it was sent stays, and is unsaved. */
  settle: (sent: T, stored: T) => void;
  /** Begins anew from what is stored; what was typed is gone. */
  restart: (stored: T) => void;
}

/** What somebody is editing. */
export function useDraft<T extends object>(stored: T): Draft<T> {
  const [base, setBase] = useState(stored);
  const [value, setValue] = useState(stored);
  const changes = changesOf(base, value);
  return {
    value,
    base,
    changes,
    isDirty: Object.keys(changes).length > 0,
    set: (change) => setValue((before) => ({ ...before, ...change })),
    settle(sent, next) {
      // What stands on the screen is not drawn anew: it would lose the focus.
      keepIdentities(sent, next);
      setBase(next);
      setValue((now) => settled(now, sent, next));
    },
    restart(next) {
      setBase(next);
      setValue(next);
    },
  };
}

/** Asks before unsaved changes are left behind. */
export function KeepChanges({ when }: { when: boolean }) {
  const blocker = useBlocker({ shouldBlockFn: () => when, enableBeforeUnload: () => when, withResolver: true });
  return (
    <LeaveQuestion
      opened={blocker.status === 'blocked'}
      onLeave={() => blocker.proceed?.()}
      onStay={() => blocker.reset?.()}
    />
  );
}

export function LeaveQuestion({
  opened,
  onLeave,
  onStay,
}: {
  opened: boolean;
  onLeave: () => void;
  onStay: () => void;
}) {
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
